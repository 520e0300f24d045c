package look_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// ear is somebody who listens.
type ear struct {
	e      *testenv.Env
	events chan berthadmin.Event
	end    chan error // why it ended
	stop   context.CancelFunc
}

func listen(e *testenv.Env) *ear {
	ctx, stop := context.WithCancel(e.Ctx)
	h := &ear{e: e, events: make(chan berthadmin.Event, 10000), end: make(chan error, 1), stop: stop}
	go func() { h.end <- e.Inspector.Listen(ctx, func(ev berthadmin.Event) { h.events <- ev }) }()
	e.Cleanup(stop)
	return h
}

// await waits for an event of this kind and id, or any id, and drops others.
func (h *ear) await(kind berthadmin.EventKind, id string) berthadmin.Event {
	h.e.Helper()
	for {
		select {
		case ev := <-h.events:
			if ev.Kind == kind && (id == "" || ev.ID == id) {
				return ev
			}
		case err := <-h.end:
			h.e.Fatalf("before %q was heard: %v", kind, err)
		case <-h.e.Ctx.Done():
			h.e.Fatalf("never heard %q", kind)
		}
	}
}

func (h *ear) ended(want error) {
	h.e.Helper()
	select {
	case err := <-h.end:
		h.e.WantErr(err, want)
	case <-h.e.Ctx.Done():
		h.e.Fatal("it still listens")
	}
}

// listens fails if it has ended.
func (h *ear) listens() {
	h.e.Helper()
	select {
	case err := <-h.end:
		h.e.Fatalf("it listens no longer: %v", err)
	default:
	}
}

// TestListenHearsWhatHappens to the holders and waiters of all.
func TestListenHearsWhatHappens(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		h := listen(e)
		h.await(berthadmin.EventListening, "")
		p, dead := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(3))
		lost := e.Hold(dead.Named("other", 1, berth.TTL(e.TTL)))
		dead.Crash()
		r := e.Queue(p.Sem(3), berth.Weight(3))
		e.Release(first)
		next := r.Granted()
		if ev := h.await(berthadmin.EventHandoff, next.ID()); ev.Name != testenv.Name || ev.Token != next.Token() || ev.Slot != next.Slot() || ev.Limit != 3 {
			t.Errorf("hand-off %+v of %+v", ev, next)
		}
		heavy := e.Queue(p.Sem(3), berth.Weight(2))
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 1))
		heavy.Refused(berth.ErrTooHeavy)
		h.await(berthadmin.EventTooHeavy, "")
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, next.ID()))
		h.await(berthadmin.EventEvicted, next.ID())
		e.Pass(2 * e.TTL)
		_, err := e.Inspector.Show(e.Ctx, "other")
		e.WantErr(err, berthadmin.ErrNotFound)
		if ev := h.await(berthadmin.EventExpired, lost.ID()); ev.Name != "other" {
			t.Errorf("expired %+v", ev)
		}
		h.stop()
		h.ended(context.Canceled)
	})
}

// TestListenIgnoresWhatIsNoMessageOfBerths.
func TestListenIgnoresWhatIsNoMessageOfBerths(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		h := listen(e)
		h.await(berthadmin.EventListening, "")
		key := e.Prefix + ":{" + testenv.Name + "}"
		for _, m := range []struct{ channel, payload string }{
			{":inbox:a", ""},
			{":inbox:a", key},
			{":inbox:a", key + "\ng a b"},
			{":inbox:a", key + "\nx a 9"},
			{":inbox:a", key + "\ng a 0 1 1 more"},
			{":inbox:a", "x\nx a 2"},
			{":other", key + "\nx a 2"},
			{":inbox:a", e.Prefix + ":{\x1b}\nx a 2"},
			{":inbox:a", key + "\n\nx last 2"},
		} {
			e.Must(e.Redis.Publish(e.Ctx, e.Prefix+m.channel, m.payload).Err())
		}
		if ev := <-h.events; ev != (berthadmin.Event{Kind: berthadmin.EventExpired, Name: testenv.Name, ID: "last"}) {
			t.Errorf("heard %+v", ev)
		}
	})
}

// TestListenGivesUpInAFlood rather than take the server's time for its own copies.
func TestListenGivesUpInAFlood(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		h := listen(e)
		h.await(berthadmin.EventListening, "")
		shout := func(n int) {
			for range n {
				e.Must(e.Redis.Publish(e.Ctx, e.Prefix+":inbox:a", "x").Err())
			}
		}
		for range 3 { // 1,900 a second are borne
			shout(1900)
			e.Pass(1100 * time.Millisecond)
			h.listens()
		}
		shout(2001)
		h.ended(berthadmin.ErrFlood)
	})
}

// TestListenSaysWhyItCannot: no right, no server, a Cluster, a connection that breaks.
func TestListenSaysWhyItCannot(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		t, s := e.T, e.Server
		inspector := func(rdb redis.UniversalClient) *berthadmin.Inspector {
			client, err := berth.New(rdb)
			e.Must(err)
			t.Cleanup(func() { _ = client.Close() })
			return berthadmin.Of(client)
		}
		s.Do(t, "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "-psubscribe")
		deaf := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "secret" })
		err := inspector(deaf).Listen(e.Ctx, func(berthadmin.Event) {})
		if !errors.Is(err, berth.ErrRefused) || !strings.Contains(fmt.Sprint(err), "NOPERM") {
			t.Errorf("without the right: %v", err)
		}
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
		t.Cleanup(func() { _ = cluster.Close() })
		e.WantErr(inspector(cluster).Listen(e.Ctx, func(berthadmin.Event) {}), berthadmin.ErrUnsupported)
		h := listen(e)
		h.await(berthadmin.EventListening, "")
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		h.ended(berth.ErrUnreachable)
		s.Kill()
		h = listen(e)
		h.ended(berth.ErrUnreachable)
	})
}
