package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// pin is an operation that is harmless to repeat.
var pin = protocol.Op{Verb: protocol.Pin, N: 3}

// TestOutcomeOfARepeatedOperation: a refusal is one only if no earlier copy can have been
// executed, or can yet be. So what comes after a lost answer says nothing.
func TestOutcomeOfARepeatedOperation(t *testing.T) {
	const ok, lost, passing, final = "", "lost", "READONLY no", "NOPERM no"
	for what, c := range map[string]struct {
		answers []string // the last again and again
		kind    error
		again   bool
		least   time.Duration
	}{
		"done":                             {[]string{ok}, nil, false, 0},
		"refused for a while":              {[]string{passing, passing, ok}, nil, false, 2 * oncePause},
		"refused to the end":               {[]string{passing}, protocol.ErrRefused, false, claim.Timeout},
		"refused for good":                 {[]string{final}, protocol.ErrRejected, false, 0},
		"refused for a while and for good": {[]string{passing, final}, protocol.ErrRejected, false, oncePause},
		"lost, then done":                  {[]string{lost, ok}, nil, true, mostOnce},
		"lost to the end":                  {[]string{lost}, protocol.ErrUnknown, true, claim.Timeout},
		"lost, then refused to the end":    {[]string{lost, passing}, protocol.ErrUnknown, true, claim.Timeout},
		"refused, lost, refused":           {[]string{passing, lost, passing}, protocol.ErrUnknown, true, claim.Timeout},
		"lost, then refused for good":      {[]string{lost, final}, protocol.ErrUnknown, true, mostOnce},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(s *server) {
				var mu sync.Mutex
				answers := c.answers
				s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
					mu.Lock()
					answer := answers[0]
					if len(answers) > 1 {
						answers = answers[1:]
					}
					mu.Unlock()
					switch answer {
					case ok:
						return pass()
					case lost:
						return hang(ctx, cmd)
					default:
						<-time.After(time.Millisecond) // so that no attempt begins at the very end
						return refuse(cmd, answer)
					}
				})
				start := time.Now()
				_, again, err := s.Do(s.Context(), "a", pin)
				if took := time.Since(start); took < c.least || took > c.least+2*oncePause {
					s.Errorf("it took %v, want %v", took, c.least)
				}
				if again != c.again || (err == nil) != (c.kind == nil) {
					s.Errorf("repeated after an unknown outcome: %v; %v", again, err)
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
				calls := 0
				s.on("evalsha", func(_ context.Context, cmd redis.Cmder, pass func() error) error {
					if calls++; calls == 2 && c.fails {
						return refuse(cmd, "NOPERM no")
					}
					err := pass()
					if line, ok := cmd.(interface {
						Val() string
						SetVal(string)
					}); err == nil && ok && calls <= c.more {
						now, rest, _ := strings.Cut(line.Val(), " 0 ")
						line.SetVal(now + " 1 " + rest)
					}
					return err
				})
				_, _, _ = s.Do(s.Context(), "warm", pin) // the server knows the script
				calls = 0
				result, again, err := s.Do(s.Context(), "a", protocol.Op{Verb: protocol.Renew, ID: s.newID(), TTL: time.Minute})
				if err != nil || again || calls != c.calls || result.Code != protocol.Gone {
					s.Errorf("%d calls, want %d: %+v, %v, %v", calls, c.calls, result, again, err)
				}
			})
		})
	}
}

// TestRepetitionEndsWithItsContext, and there is none in a closed session.
func TestRepetitionEndsWithItsContext(t *testing.T) {
	inBubble(t, func(s *server) {
		s.on("evalsha", func(_ context.Context, cmd redis.Cmder, _ func() error) error {
			<-time.After(time.Millisecond)
			return refuse(cmd, "OOM no")
		})
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, _, err := s.Do(ctx, "a", pin); !errors.Is(err, protocol.ErrRefused) || time.Since(start) != time.Second {
			s.Errorf("after %v: %v", time.Since(start), err)
		}
		s.Close()
		before := len(s.sent("evalsha"))
		if _, _, err := s.Do(s.Context(), "a", pin); !errors.Is(err, claim.ErrClosed) || len(s.sent("evalsha")) > before {
			s.Errorf("closed: %v", err)
		}
	})
}
