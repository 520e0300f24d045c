package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/session"
)

// How much of the audit is kept, and how long its texts may be.
const (
	auditLength = 1000
	auditPage   = 500
	maxWho      = 128
	maxWhy      = 500
)

// Audited is something that was done by an Inspector that Because returned.
type Audited struct {
	At    time.Time `json:"at"`   // by the server's clock
	Verb  string    `json:"verb"` // resize, pin, unpin, pause, resume, evict, "evict --force" or purge
	Name  string    `json:"name"` // of the semaphore
	What  string    `json:"what"` // the limit, or the id of the lease or request; else ""
	From  string    `json:"from"` // of resize, pin and unpin, the limit before, as far as it could be read; else ""
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	Error string    `json:"error"` // it may not have happened, and this is what is known; else ""
}

// Because returns an Inspector that does the same and has what it changes recorded on
// the server, as done by who, and why, which may be "". The last 1,000 or so are kept, in
// a stream called PREFIX:audit. What is known to have changed nothing is not recorded: an
// argument was invalid, nothing was found, Redis refused, or it was so already.
//
// A record is made after the change, and a change does not fail because it could not be
// recorded: then the client's log says so. The user of Redis needs the right to XADD.
func (in *Inspector) Because(who, why string) *Inspector {
	other := *in
	other.because, other.who, other.why = true, who, why
	return &other
}

// audited does something and has it recorded.
func (in *Inspector) audited(ctx context.Context, verb, name, what string, do func() error) error {
	if !in.because {
		return do()
	}
	if in.who == "" {
		return &InvalidError{"who", "it is empty"}
	}
	if err := cmp.Or(validText("who", in.who, maxWho), validText("reason", in.why, maxWhy)); err != nil {
		return err
	}
	from, same := in.before(ctx, verb, name, what)
	err := do()
	if err == nil && same {
		return nil
	}
	for _, unchanged := range []error{ErrInvalid, ErrNotFound, ErrRefused, ErrCorrupt} {
		if errors.Is(err, unchanged) {
			return err
		}
	}
	values := []any{"verb", verb, "name", name, "what", what, "from", from, "who", in.who, "why", in.why}
	if err != nil {
		values = append(values, "error", err.Error())
	}
	// It counts even if the caller does not wait any more.
	_, lost := session.Bounded(context.WithoutCancel(ctx), mostCall, func(ctx context.Context) (string, error) {
		return in.rdb.XAdd(ctx, &redis.XAddArgs{Stream: in.auditKey(), MaxLen: auditLength, Approx: true, Values: values}).Result()
	})
	if lost != nil {
		in.log.Warn("berth: this was not recorded in the audit", "verb", verb, "semaphore", name, "error", lost)
	}
	return err
}

// before returns the limit that a verb is about to change, "" if it is about no limit or
// there is none, and whether all is already as the verb will leave it.
func (in *Inspector) before(ctx context.Context, verb, name, what string) (from string, same bool) {
	if validName(name) != nil {
		return "", false
	}
	for st, err := range in.Sample(ctx, []string{name}, SampleOptions{}) {
		if err != nil {
			break
		}
		limit, declared := strconv.Itoa(st.Limit), strconv.Itoa(st.Declared)
		switch verb {
		case "resize":
			return declared, declared == what
		case "pin":
			return limit, st.Pinned && limit == what
		case "unpin":
			return limit, !st.Pinned
		case "pause":
			return "", st.Paused
		case "resume":
			return "", !st.Paused
		}
	}
	return "", false
}

func (in *Inspector) auditKey() string { return in.prefix + ":audit" }

// Audit yields what was done by Inspectors that Because returned, the latest first. An
// error is the last thing that is yielded: ErrUnreachable, or ErrRefused, for the user of
// Redis needs the right to XREVRANGE.
func (in *Inspector) Audit(ctx context.Context) iter.Seq2[Audited, error] {
	return func(yield func(Audited, error) bool) {
		if err := validContext(ctx); err != nil {
			yield(Audited{}, err)
			return
		}
		for from := "+"; ; {
			page, err := session.Bounded(ctx, mostCall, func(ctx context.Context) ([]redis.XMessage, error) {
				return in.rdb.XRevRangeN(ctx, in.auditKey(), from, "-", auditPage).Result()
			})
			if err != nil {
				yield(Audited{}, asked(ctx, err))
				return
			}
			for _, m := range page {
				if !yield(entry(m), nil) {
					return
				}
				from = "(" + m.ID
			}
			if len(page) < auditPage {
				return
			}
		}
	}
}

func entry(m redis.XMessage) Audited {
	text := func(field string) string {
		s, _ := m.Values[field].(string)
		return s
	}
	at, _, _ := strings.Cut(m.ID, "-")
	ms, _ := strconv.ParseInt(at, 10, 64)
	return Audited{
		At: time.UnixMilli(ms), Verb: text("verb"), Name: text("name"), What: text("what"), From: text("from"),
		Who: text("who"), Why: text("why"), Error: text("error"),
	}
}

// asked words the error of a command that is not the protocol's.
func asked(ctx context.Context, err error) error {
	kind := ErrUnreachable
	if _, refused := errors.AsType[redis.Error](err); refused {
		kind = ErrRefused
	}
	if ctx.Err() != nil {
		return fmt.Errorf("berth: %w", ctx.Err())
	}
	return fmt.Errorf("%w: %w", kind, err)
}
