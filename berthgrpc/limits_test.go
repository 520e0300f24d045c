package berthgrpc_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthgrpc"
	"github.com/berth-go/berth/internal/testkit/hostile"
)

// tenant is for whom a call on a server is made.
func tenant(ctx context.Context) string {
	for _, v := range metadata.ValueFromIncomingContext(ctx, "x-tenant") {
		return v
	}
	return ""
}

func TestEachKeyHasALimit(t *testing.T) {
	for side, name := range map[string]string{"server": "work", "client": "api"} {
		t.Run(side, func(t *testing.T) {
			bubble(t, func(w *world) {
				g := make(gate)
				opts := []berthgrpc.Option{
					berthgrpc.Key(berthgrpc.ByMetadata("X-Tenant")), berthgrpc.MaxWait(0),
					berthgrpc.Limits(func(key string) int { return map[string]int{"a": 1, "b": 2}[key] }),
				}
				l := w.server(9, opts...)
				if side == "client" {
					l = w.caller(9, opts...)
				}
				w.start(&service{unary: g.wait}, l)
				holds := []<-chan error{w.begin(w.as("a")), w.begin(w.as("b")), w.begin(w.as("b"))}
				w.want(name+"/a", 1, 0)
				w.want(name+"/b", 2, 0)
				wantCode(t, w.call(w.as("a")), codes.ResourceExhausted)
				wantCode(t, w.call(w.as("b")), codes.ResourceExhausted)
				wantCode(t, w.call(w.as("nobody")), codes.Internal) // its limit is 0
				close(g)
				for _, one := range holds {
					if err := <-one; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestAnyKeyIsValid: what a client sends does no harm.
func TestAnyKeyIsValid(t *testing.T) {
	bubble(t, func(w *world) {
		key := ""
		l := w.server(1, berthgrpc.Key(func(*berthgrpc.Call) string { return key }), berthgrpc.Tenant(func(*berthgrpc.Call) string { return key }))
		for _, key = range hostile.Keys() {
			if _, err := l.server.Unary(w.Context(), nil, unaryInfo, func(context.Context, any) (any, error) { return nil, nil }); err != nil { //nolint:nilnil // a handler of tests
				t.Errorf("key %.40q: %v", key, err)
			}
		}
	})
}

// TestCostIsByMethodMetadataAndMessage, and is spent from the rate that all share.
func TestCostIsByMethodMetadataAndMessage(t *testing.T) {
	bubble(t, func(w *world) {
		cost := func(c *berthgrpc.Call) []berth.AcquireOption {
			n := 1
			if m, ok := c.Message.(*testpb.SimpleRequest); ok {
				n += int(m.GetResponseSize())
			}
			if c.Method == testpb.TestService_FullDuplexCall_FullMethodName {
				n += 10
			}
			if len(c.Metadata.Get("x-tenant")) > 0 {
				n += 100
			}
			return []berth.AcquireOption{berth.Cost(n)}
		}
		w.start(&service{}, w.server(berth.NoLimit, berthgrpc.Rate(1000, time.Minute), berthgrpc.PerCall(cost), berthgrpc.MaxWait(0)))
		spent := func(want int) {
			t.Helper()
			w.spent("work", map[string]int{"": want})
		}
		if err := w.call(w.Context()); err != nil {
			t.Fatal(err)
		}
		spent(1)
		if err := w.call(w.as("a")); err != nil {
			t.Fatal(err)
		}
		spent(102)
		if _, err := w.calls.UnaryCall(w.Context(), &testpb.SimpleRequest{ResponseSize: 50}); err != nil {
			t.Fatal(err)
		}
		spent(153)
		stream, err := w.calls.FullDuplexCall(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.CloseSend()
		if _, err := stream.Recv(); ended(err) != nil {
			t.Fatal(err)
		}
		spent(164)
		_, err = w.calls.UnaryCall(w.Context(), &testpb.SimpleRequest{ResponseSize: 900})
		if after := wantCode(t, err, codes.ResourceExhausted); after < time.Minute || after > time.Minute+time.Second {
			t.Errorf("it is to come back in %v", after)
		}
		_, err = w.calls.UnaryCall(w.Context(), &testpb.SimpleRequest{ResponseSize: 1000})
		wantCode(t, err, codes.Internal) // never
	})
}

// TestFailEarlyIsToldAtOnce: a call that a rate keeps out until after its caller's deadline, or MaxWait.
func TestFailEarlyIsToldAtOnce(t *testing.T) {
	for name, wait := range map[string]time.Duration{"deadline": -1, "MaxWait": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.start(&service{}, w.server(9, berthgrpc.Rate(1, time.Minute), berthgrpc.LeaseOptions(berth.FailEarly()), berthgrpc.MaxWait(wait)))
				ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
				defer cancel()
				if err := w.call(ctx); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if after := wantCode(t, w.call(ctx), codes.ResourceExhausted); after < time.Minute || after > time.Minute+time.Second || time.Since(began) != 0 {
					t.Errorf("after %v it is to come back in %v", time.Since(began), after)
				}
				w.want("work", 0, 0)
			})
		})
	}
}

func TestCallNeedsAPermitOfEachLimit(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(2, berthgrpc.Key(berthgrpc.ByMetadata("x-tenant")), berthgrpc.And("all", 3), berthgrpc.MaxWait(0)))
		holds := []<-chan error{w.begin(w.as("a")), w.begin(w.as("a")), w.begin(w.as("b"))}
		w.want("all", 3, 0)
		wantCode(t, w.call(w.as("b")), codes.ResourceExhausted)
		w.want("work/b", 1, 0)
		close(g)
		for _, one := range holds {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTenantsShare: calls of one tenant leave room for those of others.
func TestTenantsShare(t *testing.T) {
	bubble(t, func(w *world) {
		var order []string // by one call at a time
		g := make(gate)
		w.start(&service{unary: func(ctx context.Context) error {
			order = append(order, tenant(ctx))
			return g.wait(ctx)
		}}, w.server(1, berthgrpc.Tenant(berthgrpc.ByMetadata("x-tenant")), berthgrpc.MaxWait(-1)))
		var done []<-chan error
		for _, who := range []string{"greedy", "greedy", "greedy", "greedy", "other"} {
			done = append(done, w.begin(w.as(who)))
		}
		close(g)
		for _, one := range done {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
		if len(order) != 5 || order[4] != "greedy" {
			t.Errorf("they were served in the order %v", order)
		}
	})
}

// sides are where a limit can be.
var sides = map[string]func(w *world, opts ...berthgrpc.Option) limits{
	"server": func(w *world, opts ...berthgrpc.Option) limits { return w.server(1, opts...) },
	"client": func(w *world, opts ...berthgrpc.Option) limits { return w.caller(1, opts...) },
}

func TestWithoutRedis(t *testing.T) {
	for side, limited := range sides {
		t.Run(side, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.start(&service{}, limited(w))
				w.store.Down()
				if after := wantCode(t, w.call(w.Context()), codes.Unavailable); after != time.Second {
					t.Errorf("it is to come back in %v", after)
				}
				if w.log.Count("calls are refused") != 1 {
					t.Error("the outage was not logged once")
				}
			})
			bubble(t, func(w *world) {
				var told []string // by one call at a time
				w.start(&service{}, limited(w, berthgrpc.FailOpen(func(c *berthgrpc.Call, why error) {
					if !errors.Is(why, berth.ErrUnreachable) {
						t.Error(why)
					}
					told = append(told, c.Method)
				})))
				w.store.Down()
				if err := w.call(w.Context()); err != nil {
					t.Error(err)
				}
				stream, err := w.calls.FullDuplexCall(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				_ = stream.CloseSend()
				if _, err := stream.Recv(); ended(err) != nil {
					t.Error(err)
				}
				if len(told) != 2 || told[1] != testpb.TestService_FullDuplexCall_FullMethodName {
					t.Errorf("told of %v", told)
				}
			})
		})
	}
}

// TestNothingIsWaitedForBeyondMaxWaiting.
func TestNothingIsWaitedForBeyondMaxWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(1, berthgrpc.MaxWaiting(1), berthgrpc.MaxWait(-1)))
		holds, waits := w.begin(w.Context()), w.begin(w.Context())
		w.want("work", 1, 1)
		wantCode(t, w.call(w.Context()), codes.ResourceExhausted)
		close(g)
		<-holds
		<-waits
	})
}

// TestTenantLearnsWhoseQueueIsFull.
func TestTenantLearnsWhoseQueueIsFull(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		tenant := berthgrpc.Tenant(func(*berthgrpc.Call) string { return "greedy" })
		w.start(&service{unary: g.wait}, w.server(1, berthgrpc.LeaseOptions(berth.QueueLimit(1)), berthgrpc.MaxWait(-1), tenant))
		holds, waits := w.begin(w.Context()), w.begin(w.Context())
		w.want("work", 1, 1)
		err := w.call(w.Context())
		wantCode(t, err, codes.ResourceExhausted)
		if text := status.Convert(err).Message(); !strings.HasPrefix(text, "busy: the queue is full for the tenant of this call") {
			t.Error(text)
		}
		close(g)
		<-holds
		<-waits
	})
}

func TestBadInputIsAnInvalidError(t *testing.T) {
	bubble(t, func(w *world) {
		for name, opts := range map[string][]berthgrpc.Option{
			"nil option":         {nil},
			"nil option in And":  {berthgrpc.And("b", 1, nil)},
			"name twice":         {berthgrpc.And("a", 1)},
			"limit":              {berthgrpc.And("b", -1)},
			"Limits without Key": {berthgrpc.Limits(func(string) int { return 1 })},
			"AnswerWithin":       {berthgrpc.AnswerWithin(0)},
			"MaxWaiting":         {berthgrpc.MaxWaiting(-1)},
			"MaxHold":            {berthgrpc.MaxHold(-1)},
			"Cost":               {berthgrpc.Cost(nil)},
			"SettleBy":           {berthgrpc.SettleBy("tokens", nil)},
			"Rate":               {berthgrpc.Rate(-1, time.Second)},
		} {
			if l, err := berthgrpc.NewServerLimit(w.client, "a", 1, opts...); l != nil || !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("%s: server: %v", name, err)
			}
			if l, err := berthgrpc.NewClientLimit(w.client, "a", 1, opts...); l != nil || !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("%s: client: %v", name, err)
			}
		}
		for name, c := range map[string]*berth.Client{"": w.client, "a": nil} {
			if _, err := berthgrpc.NewServerLimit(c, name, 1); !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("name %q, client %v: %v", name, c, err)
			}
		}
	})
}

// TestLimitThatWasNotMadeRefuses, as one is whose error was not looked at.
func TestLimitThatWasNotMadeRefuses(t *testing.T) {
	var (
		server *berthgrpc.ServerLimit
		client *berthgrpc.ClientLimit
	)
	for _, s := range []*berthgrpc.ServerLimit{server, {}} {
		if _, err := s.Unary(t.Context(), nil, unaryInfo, nil); !errors.Is(err, berth.ErrInvalid) {
			t.Error(err)
		}
		if err := s.Stream(nil, nil, &grpc.StreamServerInfo{}, nil); !errors.Is(err, berth.ErrInvalid) {
			t.Error(err)
		}
	}
	for _, c := range []*berthgrpc.ClientLimit{client, {}} {
		if err := c.Unary(t.Context(), "", nil, nil, nil, nil); !errors.Is(err, berth.ErrInvalid) {
			t.Error(err)
		}
		if _, err := c.Stream(t.Context(), nil, nil, "", nil); !errors.Is(err, berth.ErrInvalid) {
			t.Error(err)
		}
	}
}
