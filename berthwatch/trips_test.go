package berthwatch

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestRoundTripsAreThoseOfTheLastMinute, and all are counted.
func TestRoundTripsAreThoseOfTheLastMinute(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		s, m := start(e, 3, nil)
		v := lookFor(e, s, 10*time.Second)
		if r := v.Trips; r.Mean != network || r.Slow() || r.Text() != "Redis answers in 10 ms" || r.Count < 9 || r.Sum != time.Duration(r.Count)*network {
			e.Errorf("%+v, %q", r, r.Text())
		}
		m.busy.Store(int64(290 * time.Millisecond))
		slow := lookFor(e, s, 62*time.Second).Trips
		if !slow.Slow() || slow.Text() != "Redis answers in 300 ms, at most 300 ms" {
			e.Errorf("%+v, %q", slow, slow.Text())
		}
		if fast, all := slow.Within[2], slow.Within[5]; fast < 9 || fast > 20 || all != slow.Count {
			e.Errorf("%d took at most 25 ms, %d at most a second, of %d", fast, all, slow.Count)
		}
		m.busy.Store(0)
		if r := lookFor(e, s, 62*time.Second).Trips; r.Slow() || r.Most != network {
			e.Errorf("afterwards: %+v", r)
		}
	})
}

// faltering answers a PING as a server does that runs only for the last fifth of each period. What
// begins a connection does not wait: that would be under a lock of the client, in which a bubble's
// time stands still.
type faltering struct{ period time.Duration }

func (f faltering) wait() {
	now := time.Duration(time.Now().UnixNano()) % f.period
	<-time.After(max(f.period*4/5-now, 0))
}

func (f faltering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f faltering) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			f.wait()
		}
		return next(ctx, cmd)
	}
}

func (f faltering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestServerThatStandsStillIsSlow, also if its period is that of the samples: it would always meet
// them in the moment in which it runs.
func TestServerThatStandsStillIsSlow(t *testing.T) {
	for _, period := range []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second} {
		t.Run(period.String(), func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				connect(e, 4)
				e.Redis.AddHook(faltering{period})
				s := run(e, e.Inspector.Inspector, Options{})
				// On average whoever comes waits for 8/25 of a period.
				if r := lookFor(e, s, 70*time.Second).Trips; !r.Slow() || r.Mean < period/8 || r.Mean > period*2/3 || r.Most > period {
					e.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestRealServerThatStandsStillIsSlow, and says so.
func TestRealServerThatStandsStillIsSlow(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		s := run(e, e.Peer().Inspector(), Options{})
		for s.Look().Trips.Count == 0 {
			e.Pass(e.Tick())
		}
		defer e.Server.Falter(400*time.Millisecond, 100*time.Millisecond)()
		for r := s.Look().Trips; !r.Slow(); r = s.Look().Trips {
			e.Pass(e.Tick())
		}
	})
}
