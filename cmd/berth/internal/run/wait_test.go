package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/internal/protocol"
)

// acquireOf is what a command makes of a semaphore.
func acquireOf(sem *berth.Semaphore) acquire {
	return func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error) {
		return sem.Acquire(ctx, berth.OnQueued(queued))
	}
}

type acquire = func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error)

// waited runs Wait in a bubble of its own and returns how long it took.
func waited(t *testing.T, cfg Config, acquire func(h *Health) acquire) (took time.Duration, err error) {
	t.Helper()
	null, openErr := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer null.Close()
	synctest.Test(t, func(*testing.T) {
		cfg.Name, cfg.Weight, cfg.NotAcquired = "s", 1, exit.NotAcquired
		cfg.Health = &Health{}
		if cfg.Notices == nil {
			cfg.Notices = NewNotices(null)
		}
		cfg.Acquire = acquire(cfg.Health)
		if cfg.Ping == nil {
			cfg.Ping = func(ctx context.Context) error {
				end := cfg.Health.begin()
				<-ctx.Done()
				end(ctx.Err(), false)
				return ctx.Err()
			}
		}
		start := time.Now()
		_, err = Wait(cfg)
		took = time.Since(start)
		<-time.After(2 * time.Hour) // for what is still under way
	})
	return took, err
}

// hangs is a Redis that does not answer and a library that does not notice.
func hangs(until time.Duration) func(h *Health) acquire {
	return func(h *Health) acquire {
		return func(context.Context, func(berth.Place)) (*berth.Lease, error) {
			h.begin()
			<-time.After(until)
			return nil, berth.ErrUnreachable
		}
	}
}

func TestWaitEndsWhenItSays(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		most time.Duration
		says string
	}{
		"a minute":   {Config{Wait: time.Minute}, time.Minute + grace, "redis has not answered for 1m0.2s: no answer"},
		"a second":   {Config{Wait: time.Second}, time.Second + grace, "redis has not answered for 1.2s: no answer"},
		"a moment":   {Config{Wait: 50 * time.Millisecond}, silence, "redis has not answered for 1s: no answer"},
		"no waiting": {Config{Wait: 1500 * time.Millisecond, Once: true}, 2 * time.Second, "redis has not answered for 1.7s: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			took, err := waited(t, tt.cfg, hangs(time.Hour))
			if took > tt.most || exit.Of(err) != exit.Unavailable || err.Error() != tt.says {
				t.Errorf("code %d after %v: %v", exit.Of(err), took, err)
			}
		})
	}
}

// While there is time, Redis is asked again; a Redis that never says anything is
// an error at once only where nobody has said how long to try.
func TestWaitOutlastsAnOutage(t *testing.T) {
	const outage = 40 * time.Second
	refused := fmt.Errorf("%w: connection refused", berth.ErrUnreachable)
	refusing := func(h *Health) acquire {
		start := time.Now()
		return func(context.Context, func(berth.Place)) (*berth.Lease, error) {
			end := h.begin()
			if time.Since(start) < outage {
				end(refused, false)
				return nil, refused
			}
			end(nil, false)
			return nil, nil // stands for a lease
		}
	}
	if took, err := waited(t, Config{Wait: time.Minute}, refusing); err != nil || took < outage || took > outage+mostPause {
		t.Errorf("with time enough: %v after %v", err, took)
	}
	took, err := waited(t, Config{Wait: 30 * time.Second}, refusing)
	if exit.Of(err) != exit.Unavailable || !errors.Is(err, berth.ErrUnreachable) || took != 30*time.Second {
		t.Errorf("with too little: %v after %v", err, took)
	}
	if took, err := waited(t, Config{}, refusing); !errors.Is(err, berth.ErrUnreachable) || took > 0 {
		t.Errorf("without a time: %v after %v", err, took)
	}
	for _, cfg := range []Config{{Patient: true}, {Patient: true, Once: true, Wait: time.Minute}} {
		if took, err := waited(t, cfg, refusing); err != nil || took < outage || took > outage+mostPause {
			t.Errorf("of what is known to live, once: %v: %v after %v", cfg.Once, err, took)
		}
	}
	if took, err := waited(t, Config{Wait: time.Second, Once: true}, refusing); !errors.Is(err, berth.ErrUnreachable) || took > 0 {
		t.Errorf("without waiting: %v after %v", err, took)
	}
}

// A log hears once that there is nothing to do but wait.
func TestLogTellsAnOutageOnce(t *testing.T) {
	for quiet, want := range map[bool]string{false: "berth: Redis has not answered for 30s; still waiting\n", true: ""} {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		_, _ = waited(t, Config{Wait: 5 * time.Minute, Quiet: quiet, Notices: NewNotices(log)}, hangs(time.Hour))
		if text, err := os.ReadFile(log.Name()); err != nil || string(text) != want {
			t.Errorf("quiet %v: it says %q, %v", quiet, text, err)
		}
	}
}

// waitedMeanwhile waits for a permit that is taken, while something happens a second later.
func waitedMeanwhile(t *testing.T, wait time.Duration, meanwhile func(*berthtest.Store, *berthadmin.Inspector)) (took time.Duration, err error) {
	t.Helper()
	store, health := berthtest.New(t), &Health{}
	client := store.Client()
	sem, err := client.Semaphore("s", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sem.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.Redis().AddHook(health)
	done := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		defer close(done)
		meanwhile(store, berthadmin.Of(client))
	})
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	start := time.Now()
	_, err = Wait(Config{
		Name: "s", Weight: 1, Wait: wait, NotAcquired: exit.NotAcquired, Acquire: acquireOf(sem), Health: health,
		Notices: NewNotices(null), Ping: func(ctx context.Context) error { return store.Redis().Ping(ctx).Err() },
	})
	took = time.Since(start)
	<-done // before the store goes
	return took, err
}

// A place in the queue is no reason any more when Redis has stopped answering.
func TestWaitNamesTheLastTrouble(t *testing.T) {
	nothing := func(*berthtest.Store, *berthadmin.Inspector) {}
	slow := func(d time.Duration) func(s *berthtest.Store, _ *berthadmin.Inspector) {
		return func(s *berthtest.Store, _ *berthadmin.Inspector) { s.Slow(d) }
	}
	for name, tt := range map[string]struct {
		wait      time.Duration
		meanwhile func(*berthtest.Store, *berthadmin.Inspector) // a second later
		code      int
		says      string
	}{
		"nothing":          {20 * time.Second, nothing, exit.NotAcquired, `no permit of "s" within 20s: 1 of 1 in use, 0 ahead in the queue`},
		"nothing, soon":    {2 * time.Second, nothing, exit.NotAcquired, `no permit of "s" within 2s: 1 of 1 in use, 0 ahead in the queue`},
		"nothing, at once": {10 * time.Millisecond, nothing, exit.NotAcquired, `no permit of "s" within 10ms: 1 of 1 in use, 0 ahead in the queue`},
		"silent":           {20 * time.Second, slow(time.Hour), exit.Unavailable, "redis has not answered for "},
		"silent, soon":     {2 * time.Second, slow(time.Hour), exit.Unavailable, "redis has not answered for 500ms: no answer"},
		"slow, soon":       {3 * time.Second, slow(400 * time.Millisecond), exit.NotAcquired, `no permit of "s" within 3s: 1 of 1 in use, 0 ahead in the queue`},
		"evicted": {20 * time.Second, func(_ *berthtest.Store, in *berthadmin.Inspector) {
			state, err := in.Show(context.Background(), "s")
			if err != nil || len(state.Queue) != 1 {
				t.Errorf("%+v, %v", state, err)
				return
			}
			if err := in.Evict(context.Background(), "s", state.Queue[0].ID); err != nil {
				t.Error(err)
			}
		}, exit.NotAcquired, "an operator took its place in the queue away"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, err := waitedMeanwhile(t, tt.wait, tt.meanwhile)
				if exit.Of(err) != tt.code || !strings.Contains(err.Error(), tt.says) || took > tt.wait {
					t.Errorf("code %d after %v: %v", exit.Of(err), took, err)
				}
			})
		})
	}
}

func TestWaitEndsForWhatIsNoRedis(t *testing.T) {
	for said, want := range map[string]string{
		`redis: can't parse map reply: "HTTP/1.1 400 Bad Request"`: `what listens there is not Redis: it says "HTTP/1.1 400 Bad Request"`,
		`redis: invalid reply: "<!DOCTYPE HTML>\n"`:                `what listens there is not Redis: it says "<!DOCTYPE HTML>\n"`,
	} {
		took, err := waited(t, Config{Wait: time.Minute}, func(h *Health) acquire {
			return func(ctx context.Context, _ func(berth.Place)) (*berth.Lease, error) {
				h.begin()(errors.New(said), true)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		if took > 0 || exit.Of(err) != exit.Unavailable || err.Error() != want {
			t.Errorf("code %d after %v: %v", exit.Of(err), took, err)
		}
	}
}

// TestOnlyWhoWaitsOutlastsARefusal: --no-wait tells at once why Redis refuses all requests, and a
// wait without a bound once that was no moment's; what may pass is left to the library, which asks
// again.
func TestOnlyWhoWaitsOutlastsARefusal(t *testing.T) {
	answers := func(context.Context) error { return nil }
	for said, lasts := range map[string]bool{
		"OOM command not allowed when used memory > 'maxmemory'.":      true,
		"READONLY You can't write against a read only replica.":        true,
		"MISCONF Errors writing to the AOF file":                       true,
		"NOREPLICAS Not enough good replicas to write.":                true,
		"CLUSTERDOWN Hash slot not served":                             true,
		"MASTERDOWN Link with MASTER is down":                          true,
		"LOADING Redis is loading the dataset in memory":               false,
		"TRYAGAIN Multiple keys request during rehashing of slot":      false,
		"NOSCRIPT No matching script. Please use EVAL.":                false,
		"ERR Script attempted to access a non local key in a cluster ": false,
	} {
		refuses := func(h *Health) acquire {
			start, patience := time.Now(), time.Hour // of the library
			if lasts {
				patience = 5 * time.Second
			}
			return func(ctx context.Context, _ func(berth.Place)) (*berth.Lease, error) {
				h.begin()(errReply(said), false)
				select {
				case <-ctx.Done():
				case <-time.After(patience):
				}
				if time.Since(start) >= time.Hour {
					return nil, fmt.Errorf("%w: %s, for an hour", berth.ErrRefused, said)
				}
				return nil, fmt.Errorf("%w: %w: %w", ctx.Err(), berth.ErrRefused, &protocol.Failure{Kind: protocol.ErrRefused, Err: errReply(said)})
			}
		}
		for cfg, want := range map[*Config]time.Duration{
			{Wait: 1500 * time.Millisecond, Once: true}: 0,
			{}:                  firstWord,
			{Wait: time.Minute}: time.Minute,
			{Patient: true}:     time.Hour,
		} {
			if !lasts {
				want = cmp.Or(cfg.Wait, time.Hour)
			}
			cfg.Ping = answers
			took, err := waited(t, *cfg, refuses)
			last := time.Duration(0)
			if want == time.Hour {
				last = 10 * time.Second // the try and the pause that are under way then
			}
			if took < want || took > want+last || exit.Of(err) != exit.Unavailable || !strings.Contains(err.Error(), said) {
				t.Errorf("%+v: code %d after %v, want %v: %v", cfg, exit.Of(err), took, want, err)
			}
		}
	}
}

// TestARefusedWaitThatEndsLateIsRefused: where the library is late to return, too.
func TestARefusedWaitThatEndsLateIsRefused(t *testing.T) {
	const said = "OOM command not allowed when used memory > 'maxmemory'."
	cfg := Config{Wait: time.Minute, Ping: func(context.Context) error { return nil }}
	took, err := waited(t, cfg, func(h *Health) acquire {
		return func(context.Context, func(berth.Place)) (*berth.Lease, error) {
			h.begin()(errReply(said), false)
			<-time.After(time.Hour)
			return nil, context.DeadlineExceeded
		}
	})
	if took != time.Minute+grace || exit.Of(err) != exit.Unavailable || !strings.Contains(err.Error(), said) {
		t.Errorf("code %d after %v: %v", exit.Of(err), took, err)
	}
}

// TestRefusalIsToldToWhoWaits, once and soon, with what to do.
func TestRefusalIsToldToWhoWaits(t *testing.T) {
	const said = "OOM command not allowed when used memory > 'maxmemory'."
	for quiet, want := range map[bool]string{true: "", false: "berth: redis refuses, for now: " + said +
		" (the server's memory is full: raise maxmemory, or remove other data); still waiting\n"} {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		_, _ = waited(t, Config{Wait: 10 * time.Second, Quiet: quiet, Notices: NewNotices(log)}, func(h *Health) acquire {
			return func(ctx context.Context, _ func(berth.Place)) (*berth.Lease, error) {
				for range 3 {
					h.begin()(errReply(said), false)
					<-time.After(time.Second)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		if text, err := os.ReadFile(log.Name()); err != nil || string(text) != want {
			t.Errorf("quiet %v: it says %q, %v", quiet, text, err)
		}
	}
}

// TestRefusalThatIsOverIsNotTheReason of a wait that ends later, and that it is over is told.
func TestRefusalThatIsOverIsNotTheReason(t *testing.T) {
	const said = "OOM command not allowed when used memory > 'maxmemory'."
	for _, quiet := range []bool{true, false} {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		cfg := Config{Wait: 10 * time.Second, Quiet: quiet, Notices: NewNotices(log), Ping: func(context.Context) error { return nil }}
		_, err = waited(t, cfg, func(h *Health) acquire {
			return func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error) {
				h.begin()(errReply(said), false)
				<-time.After(time.Second)
				h.begin()(nil, false)
				queued(berth.Place{Status: berth.Status{InUse: 1, Limit: 1}})
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		if exit.Of(err) != exit.NotAcquired || strings.Contains(err.Error(), said) {
			t.Errorf("code %d: %v", exit.Of(err), err)
		}
		text, err := os.ReadFile(log.Name())
		if told := strings.HasSuffix(string(text), "; still waiting\nberth: redis no longer refuses; still waiting\n"); err != nil || told == quiet {
			t.Errorf("quiet %v: it says %q, %v", quiet, text, err)
		}
	}
}

// A signal ends a wait at once while Redis is known to be away, and otherwise as soon as the
// place in the queue is given up.
func TestSignalEndsAWait(t *testing.T) {
	const library = 2 * time.Second // what it takes to notice that there is no answer
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, tt := range map[string]struct{ after, took time.Duration }{
		"Redis is away":       {time.Minute, grace},
		"it may only be slow": {silence / 2, library},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, health := make(chan os.Signal, 1), &Health{}
				time.AfterFunc(tt.after, func() { signals <- unix.SIGTERM })
				start := time.Now()
				_, err := Wait(Config{
					Name: "s", Weight: 1, Health: health, Notices: NewNotices(null), Signals: signals,
					Acquire: func(ctx context.Context, _ func(berth.Place)) (*berth.Lease, error) {
						health.begin()
						<-ctx.Done()
						<-time.After(library)
						return nil, ctx.Err()
					},
				})
				if took := time.Since(start); took != tt.after+tt.took || exit.Of(err) != 128+int(unix.SIGTERM) {
					t.Errorf("code %d after %v", exit.Of(err), took)
				}
				<-time.After(library) // for what is still under way
			})
		})
	}
}

// TestWaitNamesWhatAnOperatorHasSet, and who it was, if that is known: the numbers alone would
// look as if there was room.
func TestWaitNamesWhatAnOperatorHasSet(t *testing.T) {
	in := func(p berth.Place) func(*Health) acquire {
		return func(h *Health) acquire {
			return func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error) {
				h.begin()(nil, false)
				queued(p)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
	}
	who := func(context.Context, berth.Place) string { return "pinned by ann@ops-1 14:02: incident" }
	for name, tt := range map[string]struct {
		place berth.Place
		why   func(context.Context, berth.Place) string
		want  string
	}{
		"paused":           {berth.Place{Status: berth.Status{InUse: 1, Limit: 2, Paused: true}}, nil, "paused by an operator; 1 of 2 in use"},
		"pinned, by whom":  {berth.Place{Status: berth.Status{InUse: 2, Limit: 1, Pinned: true}}, who, "2 in use, limit 1, pinned by ann@ops-1 14:02: incident; 0 ahead in the queue"},
		"pinned to 0":      {berth.Place{Ahead: 3, Status: berth.Status{Pinned: true}}, nil, "0 in use, limit 0, pinned by an operator; 3 ahead in the queue"},
		"nobody has a say": {berth.Place{Status: berth.Status{InUse: 2, Limit: 2}}, who, "2 of 2 in use, 0 ahead in the queue"},
	} {
		cfg := Config{Wait: 200 * time.Millisecond, Why: tt.why}
		if _, err := waited(t, cfg, in(tt.place)); err == nil || err.Error() != `no permit of "s" within 200ms: `+tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
