package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// pin is an operation that takes no permits, and is harmless to repeat.
var pin = protocol.Op{Verb: protocol.Pin, N: 3}

// pausing is more than the first pauses after failures take together.
const pausing = 100 * time.Millisecond

// do executes op on a semaphore.
func (s *server) do(op protocol.Op) (protocol.Result, error) {
	return s.Semaphore("a").Do(context.Background(), op)
}

// warm makes the server know the script, and the session the server's clock, so that the next call
// carries an operation.
func (s *server) warm() {
	s.Helper()
	if _, err := s.do(pin); err != nil {
		s.Fatal(err)
	}
}

// TestOutcomeOfARepeatedOperation: a refusal is one only if no earlier copy can have been
// executed, or can yet be. So what comes after a lost answer says nothing.
func TestOutcomeOfARepeatedOperation(t *testing.T) {
	const ok, lost, passing, final = "", "lost", "READONLY no", "NOPERM no"
	const gaveUp = claim.TryTimeout // on a copy without an answer
	for what, c := range map[string]struct {
		answers []string // the last again and again
		kind    error
		least   time.Duration
	}{
		"done":                             {[]string{ok}, nil, 0},
		"refused for a while":              {[]string{passing, passing, ok}, nil, 0},
		"refused to the end":               {[]string{passing}, protocol.ErrRefused, claim.Timeout},
		"refused for good":                 {[]string{final}, protocol.ErrRejected, 0},
		"refused for a while and for good": {[]string{passing, final}, protocol.ErrRejected, 0},
		"lost, then done":                  {[]string{lost, ok}, nil, gaveUp},
		"lost to the end":                  {[]string{lost}, protocol.ErrUnknown, claim.Timeout},
		"lost, then refused to the end":    {[]string{lost, passing}, protocol.ErrUnknown, claim.Timeout},
		"refused, lost, refused":           {[]string{passing, lost, passing}, protocol.ErrUnknown, claim.Timeout},
		"lost, then refused for good":      {[]string{lost, final}, protocol.ErrUnknown, gaveUp},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *server) {
				s.warm()
				s.answers(c.answers)
				start := time.Now()
				_, err := s.do(pin)
				if took := time.Since(start); took < c.least || took > c.least+pausing {
					s.Errorf("it took %v, want %v", took, c.least)
				}
				if (err == nil) != (c.kind == nil) {
					s.Error(err)
				}
				for _, kind := range []error{protocol.ErrRefused, protocol.ErrRejected, protocol.ErrUnknown} {
					if errors.Is(err, kind) != (kind == c.kind) {
						s.Errorf("%v: is %q: %v", err, kind, errors.Is(err, kind))
					}
				}
			})
		})
	}
}

// answers sets what becomes of calls, in turn, and the last again and again: "" passes, "lost" has no
// answer, and the rest is one of the server.
func (s *server) answers(all []string) {
	var mu sync.Mutex
	s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
		mu.Lock()
		answer := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		mu.Unlock()
		switch answer {
		case "":
			return pass()
		case "lost":
			return hang(ctx, cmd)
		default:
			return refuse(cmd, answer)
		}
	})
}

// TestWhatAnOperationLeavesIsDone: one step makes a bounded number of hand-offs, and says whether
// there are more.
func TestWhatAnOperationLeavesIsDone(t *testing.T) {
	for what, c := range map[string]struct {
		more  int  // answers that say so
		fails bool // the call after the first
		calls int
	}{"nothing": {0, false, 1}, "much": {5, false, 6}, "what another may do": {5, true, 2}} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *server) {
				s.warm()
				var calls atomic.Int32
				s.on("evalsha", func(_ context.Context, cmd redis.Cmder, pass func() error) error {
					n := int(calls.Add(1))
					if n == 2 && c.fails {
						return refuse(cmd, "NOPERM no")
					}
					err := pass()
					if line, ok := cmd.(texted); err == nil && ok && n <= c.more {
						now, rest, _ := strings.Cut(line.Val(), " 0 ")
						line.SetVal(now + " 1 " + rest)
					}
					return err
				})
				result, err := s.do(protocol.Op{Verb: protocol.Renew, ID: s.newID(), TTL: time.Minute})
				<-time.After(time.Second)
				if n := int(calls.Load()); err != nil || n != c.calls || result.Code != protocol.Gone {
					s.Errorf("%d calls, want %d: %+v, %v", n, c.calls, result, err)
				}
			})
		})
	}
}

// TestRepetitionEndsWithItsContext: a refusal says that nothing has happened, and what is under way
// may yet happen.
func TestRepetitionEndsWithItsContext(t *testing.T) {
	for answer, kind := range map[string]error{"OOM no": protocol.ErrRefused, "lost": protocol.ErrUnknown} {
		t.Run(answer, func(t *testing.T) {
			inBubble(t, func(s *server) {
				s.warm()
				s.answers([]string{answer})
				ctx, cancel := context.WithTimeout(s.Context(), time.Second)
				defer cancel()
				start := time.Now()
				_, err := s.Semaphore("a").Do(ctx, pin)
				if !errors.Is(err, kind) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
					s.Errorf("after %v: %v", time.Since(start), err)
				}
				before := len(s.sent("evalsha"))
				if _, err := s.Semaphore("a").Do(ctx, pin); !errors.Is(err, context.DeadlineExceeded) || len(s.sent("evalsha")) > before {
					s.Errorf("after the end: %v", err)
				}
			})
		})
	}
}

// TestCloseWaitsForAnOperation, which was asked for before, and may have been executed whatever
// becomes of the answer.
func TestCloseWaitsForAnOperation(t *testing.T) {
	const slow = time.Second
	for answer, want := range map[string]struct {
		kind error
		took time.Duration
	}{"": {nil, slow}, "lost": {protocol.ErrUnknown, claim.Timeout}} {
		t.Run(answer, func(t *testing.T) {
			inBubble(t, func(s *server) {
				s.warm()
				s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
					if answer == "lost" {
						return hang(ctx, cmd)
					}
					<-time.After(slow)
					return pass()
				})
				told := make(chan error, 1)
				go func() {
					_, err := s.do(pin)
					told <- err
				}()
				<-time.After(time.Millisecond)
				start := time.Now()
				s.Close()
				if took := time.Since(start); took > want.took || took < want.took-time.Millisecond {
					s.Errorf("Close took %v, want %v", took, want.took)
				}
				if err := <-told; (err == nil) != (want.kind == nil) || !errors.Is(err, want.kind) {
					s.Error(err)
				}
				before := len(s.sent("evalsha"))
				if _, err := s.do(pin); !errors.Is(err, claim.ErrClosed) || len(s.sent("evalsha")) > before {
					s.Errorf("closed: %v", err)
				}
			})
		})
	}
}

// TestOperationsOnOneLeaseTravelApart: a call that names an id twice is refused as a whole.
func TestOperationsOnOneLeaseTravelApart(t *testing.T) {
	inBubble(t, func(s *server) {
		s.warm()
		var wg sync.WaitGroup
		id := NewHandle()
		for range 5 {
			for _, verb := range []protocol.Verb{protocol.Renew, protocol.Release} {
				wg.Go(func() {
					if result, err := s.do(protocol.Op{Verb: verb, ID: id}); err != nil || result.Code != protocol.Gone {
						s.Errorf("%c: %+v, %v", verb, result, err)
					}
				})
			}
			wg.Go(func() {
				_, err := s.Semaphore("a").Adopt(context.Background(), id, terms(false), false)
				if lost := (*claim.LostError)(nil); !errors.As(err, &lost) {
					s.Errorf("Adopt: %v", err)
				}
			})
		}
		wg.Wait()
	})
}
