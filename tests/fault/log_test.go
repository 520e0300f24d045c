package fault_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestFailedRenewalIsLogged: once a minute, however many leases an outage concerns, with the
// name of the first.
func TestFailedRenewalIsLogged(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		var log testenv.Log
		p := e.Peer(berth.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		const told = "a renewal failed"
		leases := []*berth.Lease{e.Hold(p.Named("a", 1)), e.Hold(p.Named("b", 1))}
		p.Net.Down()
		for _, lease := range leases {
			if err := lease.Renew(e.Ctx); err == nil {
				e.Error("renewed without a network")
			}
		}
		if n, named := log.Count(told), log.Count("semaphore="); n != 1 || named != 1 {
			e.Errorf("told %d times, with %d names", n, named)
		}
		for _, lease := range leases {
			_ = e.Lost(lease)
		}
		p.Net.Up()
		e.Pass(time.Minute)
		again := e.Hold(p.Named("a", 1))
		p.Net.Down()
		_ = again.Renew(e.Ctx)
		if n := log.Count(told); n != 2 {
			e.Errorf("told %d times of two outages", n)
		}
	})
}
