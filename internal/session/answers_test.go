package session

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
)

// What a session makes of answers and messages that are late, lost, doubled, out of order or wrong.
// The store is real, and embedded; what comes from it is not.

const ttl = 30 * time.Second

func terms(wait bool) *protocol.Terms {
	return &protocol.Terms{Wait: wait, Weight: 1, TTL: ttl, Heartbeat: 10 * time.Second, QueueLimit: 100, Limit: 1}
}

// verbOf returns the operation of a call that carries one.
func verbOf(cmd redis.Cmder) string {
	args := cmd.Args()
	if head, ok := args[min(6, len(args)-1)].(string); ok && len(args) == 8 {
		return head[:1]
	}
	return ""
}

// onFirst sets what becomes of the first call that carries the operation; others pass.
func (s *server) onFirst(verb string, f func(ctx context.Context, cmd redis.Cmder, pass func() error) error) {
	var met atomic.Bool
	s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
		if verbOf(cmd) != verb || met.Swap(true) {
			return pass()
		}
		return f(ctx, cmd, pass)
	})
}

// texted is a command whose answer is a text.
type texted interface {
	Val() string
	SetVal(text string)
}

// onServer returns the leases and the queue that the store has.
func (s *server) onServer() *look.Snapshot {
	s.Helper()
	snap, err := look.New(s.store).Inspect(context.Background(), s.store.Key("n"), true)
	if err != nil {
		s.Fatal(err)
	}
	return snap
}

// sound fails unless r is the one lease on the server, and is not trusted for longer than that has it.
func (s *server) sound(r *Request) {
	s.Helper()
	id, lease := r.Lease()
	snap := s.onServer()
	if len(snap.Leases) != 1 || snap.Leases[0].ID != id || snap.Leases[0].Token != lease.Token {
		s.Fatalf("the lease is %s, token %d; the server has %+v", id, lease.Token, snap.Leases)
	}
	if until := r.Trust().Time(); !r.Valid() || until.UnixMilli() > snap.Leases[0].Expires {
		s.Errorf("trusted until %v, but it ends at %v", until, time.UnixMilli(snap.Leases[0].Expires))
	}
}

// answers are what may become of a call and of its answer.
var answers = []struct {
	name string
	do   func(ctx context.Context, cmd redis.Cmder, pass func() error) error
}{
	{"in time", func(_ context.Context, _ redis.Cmder, pass func() error) error { return pass() }},
	{"late", func(_ context.Context, _ redis.Cmder, pass func() error) error {
		defer func() { <-time.After(4 * time.Second) }()
		return pass()
	}},
	{"lost", func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
		_ = pass()
		return hang(ctx, cmd)
	}},
	{"never sent", func(ctx context.Context, cmd redis.Cmder, _ func() error) error { return hang(ctx, cmd) }},
	{"doubled", func(_ context.Context, cmd redis.Cmder, pass func() error) error {
		err := pass()
		line := cmd.(texted)
		defer line.SetVal(line.Val())
		_ = pass()
		return err
	}},
	{"executed after its repetition", func(_ context.Context, _ redis.Cmder, pass func() error) error {
		<-time.After(4 * time.Second)
		return pass()
	}},
	{"refused for now", func(_ context.Context, cmd redis.Cmder, _ func() error) error {
		return refuse(cmd, "LOADING Redis is loading the dataset in memory")
	}},
	{"of more than was asked", func(_ context.Context, cmd redis.Cmder, pass func() error) error {
		err := pass()
		line := cmd.(texted)
		line.SetVal(line.Val() + " 9")
		return err
	}},
	{"not an answer", func(_ context.Context, cmd redis.Cmder, pass func() error) error {
		err := pass()
		cmd.(texted).SetVal("PONG")
		return err
	}},
}

// TestAnswerToAcquire: whatever becomes of the first copy, there is one lease, which is trusted for no
// longer than the server has it, and none after the release.
func TestAnswerToAcquire(t *testing.T) {
	for _, answer := range answers {
		for _, wait := range []bool{true, false} {
			t.Run(answer.name, func(t *testing.T) {
				inBubble(t, func(s *server) {
					s.onFirst("A", answer.do)
					r, err := s.Semaphore("n").Acquire(context.Background(), terms(wait), false, nil)
					if err != nil {
						s.Fatal(err)
					}
					s.sound(r)
					if err := r.Release(); err != nil {
						s.Error(err)
					}
					<-time.After(5 * time.Second) // copies have been executed
					if snap := s.onServer(); len(snap.Leases)+len(snap.Queue) > 0 {
						s.Errorf("left: %+v", snap)
					}
				})
			})
		}
	}
}

// TestAnswerToRenewal: whatever becomes of the first copy, the lease is kept.
func TestAnswerToRenewal(t *testing.T) {
	for _, answer := range answers {
		t.Run(answer.name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				r, err := s.Semaphore("n").Acquire(context.Background(), terms(true), false, nil)
				if err != nil {
					s.Fatal(err)
				}
				s.onFirst("R", answer.do)
				<-time.After(3 * ttl)
				s.sound(r)
			})
		})
	}
}

// TestAnswerToRelease: whatever becomes of the first copy, the lease was held until then, and is gone.
func TestAnswerToRelease(t *testing.T) {
	for _, answer := range answers {
		t.Run(answer.name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				r, err := s.Semaphore("n").Acquire(context.Background(), terms(true), false, nil)
				if err != nil {
					s.Fatal(err)
				}
				s.onFirst("L", answer.do)
				if err := r.Release(); err != nil {
					s.Error(err)
				}
				if snap := s.onServer(); len(snap.Leases) > 0 {
					s.Errorf("left: %+v", snap.Leases)
				}
			})
		})
	}
}

// TestRejectedAcquireEnds: what is useless to repeat is sent once.
func TestRejectedAcquireEnds(t *testing.T) {
	inBubble(t, func(s *server) {
		s.onFirst("A", func(_ context.Context, cmd redis.Cmder, _ func() error) error { return refuse(cmd, "NOPERM no") })
		if _, err := s.Semaphore("n").Acquire(context.Background(), terms(true), false, nil); !errors.Is(err, protocol.ErrRejected) {
			s.Errorf("%v", err)
		}
	})
}

// waiter is a request in the queue behind a lease of somebody else.
type waiter struct {
	*server

	sem     *Semaphore
	id      string
	outcome chan *Request
}

const other = "other.1"

// behind runs body with a waiter.
func behind(t *testing.T, body func(w *waiter)) {
	inBubble(t, func(s *server) {
		w := &waiter{server: s, sem: s.Semaphore("n"), outcome: make(chan *Request, 1)}
		w.must(protocol.Op{Verb: protocol.Acquire, ID: other, Terms: terms(false)})
		go func() {
			r, err := w.sem.Acquire(context.Background(), terms(true), false, nil)
			if err != nil {
				s.Error(err)
			}
			w.outcome <- r
		}()
		synctest.Wait()
		w.id = s.onServer().Queue[0].ID
		body(w)
		if len(w.outcome) == 0 { // it waits
			w.must(protocol.Op{Verb: protocol.Release, ID: other})
		}
		r := <-w.outcome
		w.sound(r)
		if err := r.Release(); err != nil {
			s.Error(err)
		}
		synctest.Wait() // who releases is told before the semaphore is forgotten
		if left := s.active(); len(left) > 0 {
			s.Errorf("the semaphore is still live, and will never be forgotten")
		}
	})
}

func (w *waiter) must(op protocol.Op) {
	w.Helper()
	if _, err := w.store.Do(context.Background(), w.store.Key("n"), 0, []protocol.Op{op}); err != nil {
		w.Fatal(err)
	}
}

// asked returns how many calls body leads to.
func (w *waiter) asked(body func()) int {
	before := len(w.sent("evalsha"))
	body()
	synctest.Wait()
	return len(w.sent("evalsha")) - before
}

// TestMessages: no message but a grant that can be true makes a waiter believe anything. Those about
// its id make it ask, once.
func TestMessages(t *testing.T) {
	for _, lines := range []struct {
		name, text string
		asks       int
	}{
		{"an end", "x ID 2", 1},
		{"a request to stop", "x ID 6", 1},
		{"an end, twice", "x ID 1\nx ID 1", 1},
		{"a line of a newer client", "y ID what", 1},
		{"a grant of more words", "g ID 0 TOKEN 1 more", 1},
		{"a grant of fewer words", "g ID 0 TOKEN", 1},
		{"a slot below 0", "g ID -1 TOKEN 1", 1},
		{"a slot above the limit", "g ID 1 TOKEN 1", 1},
		{"a limit of 0", "g ID 0 TOKEN 0", 1},
		{"a limit that nobody may have", "g ID 0 TOKEN 1073741825", 1},
		{"a token of tomorrow", "g ID 0 9000000000000000 1", 1},
		{"a token of 0", "g ID 0 0 1", 1},
		{"numbers that are none", "g ID a b c", 1},
		{"somebody else's id", "g ID9 0 TOKEN 1", 0},
		{"nobody's", "g", 0},
		{"nothing", "", 0},
	} {
		t.Run(lines.name, func(t *testing.T) {
			behind(t, func(w *waiter) {
				text := strings.ReplaceAll(strings.ReplaceAll(lines.text, "ID", w.id), "TOKEN", "1700000000000000")
				if n := w.asked(func() { w.hear(w.store.Key("n").State + "\n" + text) }); n != lines.asks {
					w.Errorf("%d calls, want %d", n, lines.asks)
				}
				if n := w.asked(func() { w.hear("berth:{m}\n" + text) }); n != 0 {
					w.Errorf("%d calls for another semaphore's message", n)
				}
				if len(w.outcome) > 0 {
					w.Error("it believes that it was granted")
				}
			})
		})
	}
}

// TestGrantIsHeardOften: a message that comes twice, or after the end, changes nothing.
func TestGrantIsHeardOften(t *testing.T) {
	behind(t, func(w *waiter) {
		w.must(protocol.Op{Verb: protocol.Release, ID: other})
		r := <-w.outcome
		_, lease := r.Lease()
		before := r.Trust()
		grant := w.store.Key("n").State + "\ng " + w.id + " 0 " + strconv.FormatInt(lease.Token+1, 10) + " 1"
		for range 2 {
			w.hear(grant)
		}
		if _, is := r.Lease(); is != lease || r.Trust() != before {
			w.Errorf("%+v until %v became %+v until %v", lease, before, is, r.Trust())
		}
		w.outcome <- r
	})
}

// TestMessageOvertakesItsAnswer: the answer to an acquire says that it was queued; before it comes, a
// message tells of the grant, which is trusted for a heartbeat TTL from when the acquire was sent.
func TestMessageOvertakesItsAnswer(t *testing.T) {
	inBubble(t, func(s *server) {
		w := &waiter{server: s, sem: s.Semaphore("n")}
		w.must(protocol.Op{Verb: protocol.Acquire, ID: other, Terms: terms(false)})
		w.onFirst("A", func(_ context.Context, _ redis.Cmder, pass func() error) error {
			defer func() { <-time.After(2 * time.Second) }()
			return pass()
		})
		sent := clock.Exact()
		go func() {
			<-time.After(time.Second)
			w.must(protocol.Op{Verb: protocol.Release, ID: other})
		}()
		r, err := w.sem.Acquire(context.Background(), terms(true), false, nil)
		if err != nil {
			s.Fatal(err)
		}
		if took, lasts := clock.Exact().Sub(sent), r.Trust().Sub(sent); took >= 2*time.Second || lasts > 10*time.Second || lasts < 9*time.Second {
			s.Errorf("granted after %v, and trusted for %v", took, lasts)
		}
		s.sound(r)
		<-time.After(ttl)
		s.sound(r)
	})
}

// TestPlaceIsToldWhenItChanges: once for each place, however many heartbeats are answered.
func TestPlaceIsToldWhenItChanges(t *testing.T) {
	inBubble(t, func(s *server) {
		w := &waiter{server: s, sem: s.Semaphore("n")}
		for _, id := range []string{other, "other.2"} {
			w.must(protocol.Op{Verb: protocol.Acquire, ID: id, Terms: terms(true)})
		}
		var leave sync.WaitGroup
		leave.Go(func() { // the one in front leaves the queue after some heartbeats
			<-time.After(8 * time.Second)
			w.must(protocol.Op{Verb: protocol.Release, ID: "other.2"})
			<-time.After(8 * time.Second)
			w.must(protocol.Op{Verb: protocol.Release, ID: other})
		})
		var told []int
		if _, err := w.sem.Acquire(context.Background(), terms(true), false, func(p claim.Place) { told = append(told, p.Ahead) }); err != nil {
			s.Fatal(err)
		}
		leave.Wait() // the grant may be heard before the release is answered
		if !slices.Equal(told, []int{1, 0}) {
			s.Errorf("told %v waiters in front", told)
		}
	})
}

// TestChangedLimitIsLogged: a declaration that changes the limit in force is warned of, and of one
// semaphore once a minute at most.
func TestChangedLimitIsLogged(t *testing.T) {
	inBubble(t, func(s *server) {
		w := &waiter{server: s, sem: s.Semaphore("n")}
		lasting := *terms(false)
		lasting.TTL = time.Hour
		w.must(protocol.Op{Verb: protocol.Acquire, ID: other, Terms: &lasting}) // or the limit would be forgotten
		for _, step := range []struct {
			limit, warnings int
			pause           time.Duration
		}{{2, 1, 0}, {2, 1, 0}, {3, 1, 30 * time.Second}, {3, 1, 40 * time.Second}, {4, 2, 0}} {
			<-time.After(step.pause)
			of := *terms(false)
			of.Limit = step.limit
			r, err := w.sem.Acquire(context.Background(), &of, false, nil)
			if err != nil {
				s.Fatal(err)
			}
			if err := r.Release(); err != nil {
				s.Error(err)
			}
			if n := s.warnings(); n != step.warnings {
				s.Errorf("limit %d: %d warnings, want %d", step.limit, n, step.warnings)
			}
		}
	})
}

// TestWaiterThatLostItsPlaceIsForgottenToo: it asks again with another id, and is found by that one.
func TestWaiterThatLostItsPlaceIsForgottenToo(t *testing.T) {
	behind(t, func(w *waiter) {
		w.must(protocol.Op{Verb: protocol.Release, ID: w.id})
		<-time.After(ttl)
		if queue := w.onServer().Queue; len(queue) != 1 || queue[0].ID == w.id {
			w.Errorf("it has not asked again: %+v", queue)
		}
	})
}
