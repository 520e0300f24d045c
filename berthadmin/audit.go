package berthadmin

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// The length of the audit, and of its texts.
const (
	auditLength = 1000
	auditPage   = 500
	maxWho      = 128
	maxWhy      = 500
)

// Audited is a change made by an Inspector that Because returned.
type Audited struct {
	At    time.Time `json:"at"`   // by the server's clock
	Verb  string    `json:"verb"` // resize, pin, unpin, these three also with " --rate", pause, resume, evict, "evict --force" or purge
	Name  string    `json:"name"` // of the semaphore
	Unit  string    `json:"unit"` // of resize and pin with rates, their unit, which may be ""; else ""
	What  string    `json:"what"` // the limit, the rates of a unit, the length of a pause, or the id of the lease or request; else ""
	From  string    `json:"from"` // of resize, pin and unpin, the limit before, as far as it could be read, or the rates; else ""
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	Error string    `json:"error"` // the change may not have happened, for this reason; else ""
}

// Because returns an Inspector that does the same and also records its changes on the
// server, with who made them and why; why may be "". About the last 1,000 records are
// kept, in a stream called PREFIX:audit. A call that is known to have changed nothing
// is not recorded: an argument was invalid, nothing was found, Redis refused, or the
// state was already as wanted.
//
// The record is made after the change. If that fails, the change stands, and the
// client's log reports the missing record. The Redis user needs permission for XADD.
func (in *Inspector) Because(who, why string) *Inspector {
	other := in.copied()
	other.because, other.who, other.why = true, who, why
	return other
}

// audited calls do, which makes the change that e tells of, and records it with what there was before.
func (in *Inspector) audited(ctx context.Context, e Audited, do func() error) error {
	if in == nil || !in.because {
		return do()
	}
	if in.who == "" {
		return &berth.InvalidError{What: "who", Reason: "it is empty"}
	}
	if err := cmp.Or(invalid("who", rules.Text(in.who, maxWho)), invalid("reason", rules.Text(in.why, maxWhy))); err != nil {
		return err
	}
	from, same := in.before(ctx, &e)
	err := do()
	if err == nil && same {
		return nil
	}
	for _, unchanged := range []error{berth.ErrInvalid, ErrNotFound, ErrPinned, berth.ErrRefused, berth.ErrCorrupt} {
		if errors.Is(err, unchanged) {
			return err
		}
	}
	values := []any{"verb", e.Verb, "name", e.Name, "unit", e.Unit, "what", e.What, "from", from, "who", in.who, "why", in.why}
	if err != nil {
		values = append(values, "error", err.Error())
	}
	// The change is recorded even if the caller no longer waits.
	_, lost := protocol.Bounded(context.WithoutCancel(ctx), mostCall, func(ctx context.Context) (string, error) {
		return in.rdb.XAdd(ctx, &redis.XAddArgs{Stream: in.auditKey(), MaxLen: auditLength, Approx: true, Values: values}).Result()
	})
	if lost != nil {
		in.log.Warn("berth: this was not recorded in the audit", "verb", e.Verb, "semaphore", e.Name, "error", lost)
	}
	return err
}

// limitText is a limit for people.
func limitText(n int) string {
	if n == berth.NoLimit {
		return "any"
	}
	return strconv.Itoa(n)
}

// before returns the limit or the rates that a change is about to replace, "" if it replaces none or
// there is none yet, and whether the semaphore is already as the change would leave it.
func (in *Inspector) before(ctx context.Context, e *Audited) (from string, same bool) {
	if rules.Name(e.Name, berth.MaxName) != "" {
		return "", false
	}
	for st, err := range in.Sample(ctx, []string{e.Name}, SampleOptions{}) {
		if err != nil {
			break
		}
		limit, declared, rates := strconv.Itoa(st.Limit), strconv.Itoa(st.Declared), text(e.Unit, st.Rates)
		switch e.Verb {
		case "resize":
			return limitText(st.Declared), declared == e.What
		case "resize --rate":
			return rates, rates == e.What
		case "pin":
			return limitText(st.Limit), st.Pinned && limit == e.What
		case "pin --rate":
			return rates, st.RatesPinned && rates == e.What
		case "unpin":
			return limitText(st.Limit), !st.Pinned
		case "unpin --rate":
			return "", !st.RatesPinned
		case "pause":
			d, _ := time.ParseDuration(e.What) // 0: without end
			return "", st.Paused && (st.PausedFor == 0 || d > 0 && st.PausedFor >= d)
		case "resume":
			return "", !st.Paused
		}
	}
	return "", false
}

func (in *Inspector) auditKey() string { return in.prefix + ":audit" }

// Audit yields the changes made by Inspectors that Because returned, the latest first.
// An error is yielded last: berth.ErrUnreachable, berth.ErrRefused (the Redis user needs
// permission for XREVRANGE), or ctx's error.
func (in *Inspector) Audit(ctx context.Context) iter.Seq2[Audited, error] {
	return func(yield func(Audited, error) bool) {
		if err := in.ready(ctx); err != nil {
			yield(Audited{}, err)
			return
		}
		for from := "+"; ; {
			page, err := protocol.Bounded(ctx, mostCall, func(ctx context.Context) ([]redis.XMessage, error) {
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
		At: time.UnixMilli(ms), Verb: text("verb"), Name: text("name"), Unit: text("unit"), What: text("what"), From: text("from"),
		Who: text("who"), Why: text("why"), Error: text("error"),
	}
}
