package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthtest"
)

// TestCallIsUnderTheContract: while it runs, the semaphore has the limit, the rate, the cost and
// the tenant that the README's code names; afterwards the permit is free.
func TestCallIsUnderTheContract(t *testing.T) {
	store := berthtest.New(t)
	failed := errors.New("the API failed")
	err := run(t.Context(), store.Redis(), "acme", func(ctx context.Context) error {
		s, err := store.Inspector().Show(ctx, "partner-api")
		if err != nil {
			return err
		}
		if want := (berthadmin.Rate{N: 60, Per: time.Minute, Spent: 2}); s.Limit != 5 || len(s.Rates) != 1 || s.Rates[0] != want {
			t.Errorf("limit %d, rates %v", s.Limit, s.Rates)
		}
		if len(s.Leases) != 1 || s.Leases[0].Tenant != "acme" {
			t.Errorf("leases %+v", s.Leases)
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if s, err := store.Inspector().Show(t.Context(), "partner-api"); err != nil || s.InUse != 0 {
		t.Errorf("%d still in use, %v", s.InUse, err)
	}
}
