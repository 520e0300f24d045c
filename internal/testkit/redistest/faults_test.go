package redistest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redisserver"
)

// backend makes clients of one store, the same for every call, through f.
type backend func(f *Faults, opts ...func(*redis.Options)) *redis.Client

// eachBackend runs test on the embedded store in a bubble, where time-outs
// cost nothing, and on a real server.
func eachBackend(t *testing.T, test func(*testing.T, *Faults, backend)) {
	t.Run("embedded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := NewEmbedded(t)
			test(t, NewFaults(t), func(f *Faults, opts ...func(*redis.Options)) *redis.Client {
				o := &redis.Options{Addr: "127.0.0.1:1", Dialer: Embedded(m)}
				return newClient(t, o, slices.Concat([]func(*redis.Options){Patient}, opts, []func(*redis.Options){f.Wrap}))
			})
		})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		s := Start(t)
		test(t, NewFaults(t), func(f *Faults, opts ...func(*redis.Options)) *redis.Client {
			return s.Client(t, slices.Concat([]func(*redis.Options){Patient}, opts, []func(*redis.Options){f.Wrap})...)
		})
	})
}

func newClient(t *testing.T, o *redis.Options, opts []func(*redis.Options)) *redis.Client {
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// impatient makes a client that gives up soon and asks once: for calls that are
// never answered.
func impatient(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 200*time.Millisecond, -1 }

// connected returns c when it has a connection, although it may be impatient: a command that
// gives up while it connects is never sent, and meets no fault.
func connected(t *testing.T, c *redis.Client) *redis.Client {
	t.Helper()
	for deadline := time.Now().Add(redisserver.Timeout); c.Ping(t.Context()).Err() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("no connection")
		}
	}
	return c
}

// resp2 speaks the older protocol, in which nothing marks a push.
func resp2(o *redis.Options) { o.Protocol = 2 }

const script = `return redis.call('INCR', KEYS[1])`

func incr(ctx context.Context, c *redis.Client) (int64, error) {
	return c.Eval(ctx, script, []string{"n"}).Int64()
}

// runs waits until the script has run n times. The server may come to it later than
// its client has given up.
func runs(t *testing.T, c *redis.Client, n int64) {
	t.Helper()
	for deadline := time.Now().Add(redisserver.Timeout); get(t, c) < n; {
		if time.Now().After(deadline) {
			t.Fatalf("it did not run %d times", n)
		}
	}
	if got := get(t, c); got != n {
		t.Errorf("%d executions, want %d", got, n)
	}
}

func get(t *testing.T, c *redis.Client) int64 {
	t.Helper()
	n, err := c.Get(t.Context(), "n").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

// TestRefusedRequestIsAnsweredInItsTurn, and never reaches the server.
func TestRefusedRequestIsAnsweredInItsTurn(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		c := connect(f)
		f.Inject(Rule{Match: IsScript, Fault: Refuse, Error: "ERR no scripts here"})
		pipe := c.Pipeline()
		before, refused, after := pipe.Incr(t.Context(), "n"), pipe.Eval(t.Context(), script, []string{"n"}), pipe.Incr(t.Context(), "n")
		_, _ = pipe.Exec(t.Context()) // each command has its error
		if before.Val() != 1 || after.Val() != 2 || refused.Err() == nil || refused.Err().Error() != "ERR no scripts here" {
			t.Errorf("%v, %v, %v", before, refused, after)
		}
		if n, err := incr(t.Context(), c); err != nil || n != 3 {
			t.Errorf("the next one: %d, %v", n, err)
		}
	})
}

func TestRequestFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault Fault
		ok    bool  // the client gets its reply
		n     int64 // executions by the server
	}{
		{"swallowed reply", SwallowReply, false, 1},
		{"swallowed reply and close", SwallowReplyAndClose, false, 1},
		{"swallowed request", SwallowRequest, false, 0},
		{"reset", Reset, false, 0},
		{"duplicate", Duplicate, true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
				struck, other := connected(t, connect(f, impatient)), connect(f)
				if tt.ok {
					struck = other
				}
				i := f.Inject(Rule{Match: IsScript, Fault: tt.fault})
				if _, err := incr(t.Context(), struck); (err == nil) != tt.ok {
					t.Errorf("the reply: %v", err)
				}
				runs(t, other, tt.n)
				if i.Hits() != 1 {
					t.Errorf("%d hits, want 1", i.Hits())
				}
				if got, err := incr(t.Context(), other); err != nil || got != tt.n+1 {
					t.Errorf("the next script returns %d, %v, want %d", got, err, tt.n+1)
				}
			})
		})
	}
}

// TestRetriesAreCounted shows the trap that berth has to avoid: a client that
// repeats by itself reports success for a script that ran twice.
func TestRetriesAreCounted(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		c := connect(f)
		i := f.Inject(Rule{Match: Named("eval"), Fault: SwallowReplyAndClose, Times: 2})
		got, err := incr(t.Context(), c)
		if err != nil || got != 3 || i.Hits() != 2 || f.Count("Eval") != 3 {
			t.Errorf("%d, %v after %d losses and %d sends, want 3, nil, 2, 3", got, err, i.Hits(), f.Count("Eval"))
		}
		f.ResetCounts()
		get(t, c)
		if f.Count() != 1 || f.Counts()["GET"] != 1 {
			t.Errorf("counts after one GET: %v", f.Counts())
		}
	})
}

func TestDelayedRequestOutlivesItsClient(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		c, other := connected(t, connect(f, impatient)), connect(f)
		i := f.Inject(Rule{Match: IsScript, Fault: Delay})
		if got, err := incr(t.Context(), c); err == nil {
			t.Fatalf("a held request returned %d", got)
		}
		<-i.Hit()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if n := get(t, other); n != 0 {
			t.Errorf("%d executions before the release", n)
		}
		i.Release()
		runs(t, other, 1)
	})
}

func TestDelayedReplyArrives(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		c, other := connect(f), connect(f)
		i := f.Inject(Rule{Match: IsScript, Fault: DelayReply, Times: -1})
		done := make(chan error)
		go func() {
			_, err := incr(t.Context(), c)
			done <- err
		}()
		<-i.Hit()
		for get(t, other) != 1 { // the request may still be on its way
		}
		select {
		case err := <-done:
			t.Fatalf("the reply came before the release: %v", err)
		default:
		}
		i.Stop()
		i.Release()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestPipelineKeepsItsOrder strikes the middle of a pipeline: the replies
// before it count, and none may be taken for another's.
func TestPipelineKeepsItsOrder(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		impatient, other := connected(t, connect(f, impatient)), connect(f)
		f.Inject(Rule{Match: IsScript, Fault: Duplicate})
		run := func(c *redis.Client) []redis.Cmder {
			p := c.Pipeline()
			p.Set(t.Context(), "a", "1", 0)
			p.Eval(t.Context(), script, []string{"n"})
			p.Echo(t.Context(), "last")
			cmds, _ := p.Exec(t.Context())
			return cmds
		}
		if cmds := run(other); cmds[1].Err() != nil || cmds[2].(*redis.StringCmd).Val() != "last" {
			t.Errorf("with a duplicate: %v", cmds)
		}
		f.Inject(Rule{Match: IsScript, Fault: SwallowReply})
		if cmds := run(impatient); cmds[1].Err() == nil || cmds[2].Err() == nil {
			t.Errorf("with a lost reply: %v", cmds)
		}
		runs(t, other, 3)
	})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	for name, protocol := range map[string]func(*redis.Options){"RESP2": resp2, "RESP3": func(*redis.Options) {}} {
		t.Run(name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
				testMessages(t, f, connect(f, protocol))
			})
		})
	}
}

func testMessages(t *testing.T, f *Faults, c *redis.Client) {
	ctx := t.Context()
	sub := c.Subscribe(ctx, "news", "more")
	defer sub.Close()
	for range 2 {
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	f.Inject(Rule{Fault: DropMessage, Match: func(c Command) bool { return slices.Contains(c, "lost") }})
	held := f.Inject(Rule{Fault: DelayMessage, Match: func(c Command) bool { return slices.Contains(c, "held") }})
	for _, text := range []string{"lost", "first", "held", "last"} {
		if err := c.Publish(ctx, "news", text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for len(got) < 3 {
		m, err := sub.ReceiveMessage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, m.Payload); len(got) == 1 {
			<-held.Hit()
			if _, err := sub.ReceiveTimeout(ctx, 20*time.Millisecond); err == nil {
				t.Error("the held message came before the release")
			}
			held.Release()
		}
	}
	if want := []string{"first", "held", "last"}; !slices.Equal(got, want) {
		t.Errorf("messages %v, want %v", got, want)
	}
	if err := sub.Ping(ctx); err != nil {
		t.Error(err)
	}
	if reply, err := sub.Receive(ctx); err != nil {
		t.Errorf("PING on a subscriber: %v, %v", reply, err)
	}
}

func TestCutAllAndDown(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		c := connect(f, func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
		if _, err := incr(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		f.CutAll()
		if _, err := incr(t.Context(), c); err == nil {
			t.Error("a connection survived CutAll")
		}
		if _, err := incr(t.Context(), c); err != nil {
			t.Errorf("a new connection after CutAll: %v", err)
		}
		f.Down()
		for range 2 {
			if _, err := incr(t.Context(), c); err == nil {
				t.Error("an answer while the network is down")
			}
		}
		f.Up()
		if n, err := incr(t.Context(), c); err != nil || n != 3 {
			t.Errorf("after Up: %d, %v, want 3", n, err)
		}
	})
}

// TestForget: what is sent on a connection that was there is swallowed, and the next one works.
func TestForget(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, f *Faults, connect backend) {
		struck, other := connected(t, connect(f, impatient)), connect(f)
		f.Forget()
		if _, err := incr(t.Context(), struck); err == nil {
			t.Error("an answer on a connection that was forgotten")
		}
		for _, c := range []*redis.Client{struck, other} {
			if _, err := incr(t.Context(), connected(t, c)); err != nil {
				t.Errorf("on a new connection: %v", err)
			}
		}
		runs(t, other, 2)
	})
}
