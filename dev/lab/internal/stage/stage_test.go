package stage

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// onBoth runs body in an Env on the embedded store and in one on a Redis of its own.
func onBoth(t *testing.T, body func(t *testing.T, env *Env)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		addr := miniredis.RunT(t).Addr()
		body(t, &Env{Prefix: "t", Embedded: true, Poll: time.Millisecond, Connect: func() redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr})
		}})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		body(t, &Env{Prefix: "t", Poll: time.Millisecond, Connect: func() redis.UniversalClient { return s.Client(t) }})
	})
}

// The chapter's semaphores take the permit of a client whose clock is slow, who goes on believing in
// it.
func TestClocksApartRobThoseWhoAreSlow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, env *Env) {
		// Over before the permits time out, so that they are taken for no other reason.
		ctx, cancel := lasting(t.Context(), 30*time.Second)
		defer cancel()
		for _, alg := range algo.All() {
			if alg.Queues {
				continue
			}
			s := newStage(env, scenario.Scenario{Key: "clocks", Limit: 1, Clients: 2, Slow: time.Hour, TTL: time.Minute}, alg)
			if err := s.openWarm(ctx); err != nil {
				t.Fatal(err)
			}
			s.begin()
			slow := <-s.await(ctx, 1, s.clients[1])
			right := <-s.await(ctx, 0, s.clients[0])
			if slow.err != nil || right.err != nil {
				t.Fatal(slow.err, right.err)
			}
			slow.request.End, right.request.End = s.now(), s.now()
			r := s.result()
			r.judged([]judge.Request{slow.request, right.request}, s.now())
			if r.Limits.Moments != 1 || r.Limits.Stolen != 1 {
				t.Errorf("%s: nobody was robbed by clocks that are an hour apart: %+v", alg.Key, r.Limits)
			}
			if err := s.close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Chance is the seed's and the client's, and repeats itself.
func TestChanceRepeatsItself(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64, i int) time.Duration {
		return jitter((&stage{env: &Env{Seed: seed}}).chance(i), time.Hour)
	}
	if first, again := draw(1, 2), draw(1, 2); first != again {
		t.Error("the same seed and client drew different pauses")
	}
	if draw(1, 2) == draw(1, 3) || draw(1, 2) == draw(2, 2) {
		t.Error("another client, or another seed, drew the same pause")
	}
	rng := (&stage{env: &Env{}}).chance(0)
	for range 1000 {
		if d := jitter(rng, 10*time.Millisecond); d < 5*time.Millisecond || d > 15*time.Millisecond {
			t.Fatalf("a pause of %v is not from half to one and a half times 10ms", d)
		}
	}
}

func TestScenariosAndAlgorithmsAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, sc := range All() {
		if seen[sc.Key] || sc.Key == "" || sc.Title == "" || len(sc.About) < 40 || sc.Limit < 1 || sc.Clients < 1 || sc.TTL <= 0 {
			t.Errorf("scenario %+v", sc)
		}
		seen[sc.Key] = true
	}
	for _, a := range algo.All() {
		if seen[a.Key] || a.Title == "" || a.Open == nil || a.Fill == nil || a.Replies < 1 {
			t.Errorf("algorithm %+v", a)
		}
		seen[a.Key] = true
	}
}

// A paused holder's belief ends when it knew beforehand that it would, or when
// it was told, or when it released.
func TestPauseResult(t *testing.T) {
	t.Parallel()
	stopped := judge.Span{From: 20, To: 90}
	other := judge.Request{Client: 0, Granted: true, Start: 60, End: 100}
	for name, tt := range map[string]struct {
		last  report
		end   time.Duration
		worst int
	}{
		"released at the end":    {report{At: 97, Held: true}, 97, 1},
		"told when it asked":     {report{At: 92, Told: true}, 92, 1},
		"knew when it would end": {report{At: 92, Told: true, Until: 55}, 55, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{Scenario: scenario.Pause, requests: []judge.Request{other}}
			r := s.pauseResult(report{At: 10}, tt.last, stopped, other)
			if got := r.Requests[1]; got.Start != 10 || got.End != tt.end || got.Stopped != stopped {
				t.Errorf("the holder's belief is %+v, want an end at %d", got, tt.end)
			}
			if r.Limits.WorstOver != tt.worst {
				t.Errorf("over by %d, want %d", r.Limits.WorstOver, tt.worst)
			}
		})
	}
}
