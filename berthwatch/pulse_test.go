package berthwatch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestOutageShowsWithinThreeSeconds, whatever the pace, and whether Redis refuses connections or
// says nothing; and its end as soon.
func TestOutageShowsWithinThreeSeconds(t *testing.T) {
	for _, names := range [][]string{nil, {"n1"}} {
		for _, n := range []int{0, 3} {
			for _, every := range []time.Duration{time.Second, time.Hour} {
				for _, hangs := range []bool{false, true} {
					t.Run(fmt.Sprint(names, n, every, hangs), func(t *testing.T) {
						testenv.Embedded(t, func(e *testenv.Env) {
							start(e, n, nil)
							p := e.Peer()
							s := run(e, p.Inspector(), Options{Names: names, Every: every})
							if v, _ := lookAt(e, s, "n1", 5*time.Second); v.Err != nil {
								e.Fatalf("before: %v", v.Err)
							}
							end := down(p, hangs)
							if v := lookFor(e, s, 3*time.Second); !errors.Is(v.Err, berth.ErrUnreachable) || strings.Contains(v.Err.Error(), "semaphore") {
								e.Errorf("in an outage: %v", v.Err) // which has nothing to do with one of them
							}
							lookFor(e, s, 20*time.Second)
							end()
							if v := lookFor(e, s, 3*time.Second); v.Err != nil {
								e.Errorf("after it: %v", v.Err)
							}
						})
					})
				}
			}
		}
	}
}

// down takes a process's Redis away until the function that it returns is called.
func down(p *testenv.Peer, hangs bool) (end func()) {
	if hangs {
		return p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1}).Stop
	}
	p.Net.Down()
	return p.Net.Up
}

// TestReasonOfAnOutage: the first that is known stays, until it is over. That there is no answer yet
// is none.
func TestReasonOfAnOutage(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		start(e, 3, nil)
		p := e.Peer()
		s := run(e, p.Inspector(), Options{})
		want := func(when, reason string, after time.Duration) {
			e.Helper()
			if v := lookFor(e, s, after); !strings.HasSuffix(fmt.Sprint(v.Err), reason) {
				e.Errorf("%s: %v, want %q", when, v.Err, reason)
			}
		}
		want("before", "<nil>", 5*time.Second)
		end := down(p, true)
		want("without an answer", berth.ErrUnreachable.Error(), 3*time.Second)
		refuse := p.Net.Inject(redistest.Rule{Fault: redistest.Reset, Times: -1})
		end()
		p.Net.CutAll()
		want("when connections break", "EOF", 10*time.Second)
		refuse.Stop()
		p.Net.Down()
		want("when there are none", "EOF", 10*time.Second)
		p.Net.Up()
		want("after it", "<nil>", 10*time.Second)
	})
}

// TestOutageEndsAWait, also one for a semaphore.
func TestOutageEndsAWait(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		s := run(e, p.Inspector(), Options{})
		lookFor(e, s, 5*time.Second)
		down(p, true)
		begun := time.Now()
		s.Wait(e.Ctx, "n1")
		if took := time.Since(begun); took > 3*time.Second {
			e.Errorf("it waited for %v", took)
		}
	})
}

// TestSlowIsNotDead: while answers come, however late, there is no outage, and what they say is
// shown.
func TestSlowIsNotDead(t *testing.T) {
	for _, late := range []time.Duration{1200 * time.Millisecond, 2200 * time.Millisecond, 4500 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				s, m := start(e, 3, nil)
				m.busy.Store(int64(late))
				lookAt(e, s, "n1", 40*time.Second) // until connections are made
				for range 240 {
					v, d := lookAt(e, s, "n1", 250*time.Millisecond)
					if age := max(time.Since(v.At), time.Since(d.At)); v.Err != nil || d.Err != nil || age > 4*late {
						e.Fatalf("list %v, detail %v old: %v, %v", time.Since(v.At), time.Since(d.At), v.Err, d.Err)
					}
				}
				if n := e.Redis.PoolStats().TotalConns; n > 20 {
					e.Errorf("%d connections", n)
				}
			})
		})
	}
}

// TestDetailAfterAnOutage is read again soon: what could not be read in time did not cost the
// server that time.
func TestDetailAfterAnOutage(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		start(e, 3, nil)
		p := e.Peer()
		s := run(e, p.Inspector(), Options{})
		lookAt(e, s, "n1", 5*time.Second)
		end := down(p, true)
		lookAt(e, s, "n1", 20*time.Second)
		end()
		if v, d := lookAt(e, s, "n1", 20*time.Second); d.Err != nil || time.Since(d.At) > 2*time.Second || time.Since(v.At) > 2*time.Second {
			e.Errorf("the detail is %v old, the list %v: %v", time.Since(d.At), time.Since(v.At), d.Err)
		}
	})
}

// TestOutageOnAServer that is killed, or stands still, between two samples that are an hour
// apart.
func TestOutageOnAServer(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		samplers := []*Sampler{
			run(e, e.Peer().Inspector(), Options{Every: time.Hour}), run(e, e.Peer().Inspector(), Options{Names: []string{"a"}, Every: time.Hour}),
		}
		until := func(ok func(View) bool) {
			e.Helper()
			for _, s := range samplers {
				for !ok(s.Look()) {
					e.Pass(e.Tick())
				}
			}
		}
		there := func(v View) bool { return !v.At.IsZero() && v.Err == nil }
		away := func(v View) bool { return errors.Is(v.Err, berth.ErrUnreachable) }
		until(there)
		e.Server.Stop()
		until(away)
		e.Server.Cont()
		until(there)
		e.Server.Kill()
		until(away)
		e.Server.Restart(e.T)
		until(there)
	})
}
