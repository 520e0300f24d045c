package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestRecordIsWholeOrDamaged: numbers, an owner with a host, and a label, which may be empty.
func TestRecordIsWholeOrDamaged(t *testing.T) {
	t.Parallel()
	for record, whole := range map[string]bool{
		"h 1 0 5 0 1000 1/host;client label": true,
		"h 1 0 5 0 1000 1/host ":             true,
		"h 1 0 5 0 1000 1/host":              false,
		"h 1 0 5 0 1000 1 label":             false,
		"h x 0 5 0 1000 1/host;client label": false,
		"h":                                  false,
	} {
		if r, ok := parseRecord(record); ok != whole {
			t.Errorf("%q is whole: %v, read as %+v", record, ok, r)
		}
	}
}

// TestRestIsOfARate: where there is none, it holds up nobody.
func TestRestIsOfARate(t *testing.T) {
	t.Parallel()
	s := &Snapshot{}
	if rest := s.Rest(1); rest != 0 {
		t.Errorf("without a rate: %v", rest)
	}
	s.Rate, s.Spent = Rate{N: 1, Per: time.Minute}, 1
	if rest := s.Rest(1); rest <= 0 {
		t.Errorf("with one that is spent: %v", rest)
	}
}

// answering is a processor that answers all commands in one way.
type answering struct {
	err  error
	sent []string
}

// Process implements processor.
func (a *answering) Process(_ context.Context, cmd redis.Cmder) error {
	a.sent = append(a.sent, cmd.Name())
	cmd.SetErr(a.err)
	return a.err
}

// TestOnlyAnUnknownScriptIsSentAgain: any other failure may have come after it was executed.
func TestOnlyAnUnknownScriptIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("reset"), context.DeadlineExceeded, replyError("LOADING"), replyError("ERR BERTHCORRUPT")} {
		a := &answering{err: err}
		if _, got := whereKeysStay.line(t.Context(), a, []any{"evalsha", whereKeysStay.sha, 0}); got == nil || !slices.Equal(a.sent, []string{"evalsha"}) {
			t.Errorf("%v: %v sent, %v", err, a.sent, got)
		}
	}
	a := &answering{err: replyError("NOSCRIPT No matching script.")}
	if _, err := whereKeysStay.line(t.Context(), a, []any{"evalsha", whereKeysStay.sha, 0}); err == nil || !slices.Equal(a.sent, []string{"evalsha", "eval"}) {
		t.Errorf("an unknown script: %v sent, %v", a.sent, err)
	}
}

// TestTimedReadingReadsTheSame, and tells the server's time, if the server does.
func TestTimedReadingReadsTheSame(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		s := r.stores[0]
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(2)}, ids(2)...)...)
		for _, timed := range []bool{false, true} {
			step, err := s.NamesFrom(t.Context(), "", 1_000_000, timed)
			if err != nil || !slices.Contains(step.Names, "name") || step.Told != timed {
				t.Errorf("timed %v: %+v, %v", timed, step, err)
			}
			in := s.Inspection([]Key{r.key}, true)
			in.Timed = timed
			if more := in.Next(t.Context()); more || in.Told != timed {
				t.Errorf("timed %v: more %v, told %v", timed, more, in.Told)
			}
			if found := in.Found()[0]; found.Err != nil || len(found.Leases) != 2 {
				t.Errorf("timed %v: %+v", timed, found)
			}
		}
		away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer away.Close()
		if _, told := inPipeline(t.Context(), away, true, func(redis.Pipeliner) {}); told {
			t.Error("a server that is away tells its time")
		}
	})
}

// TestCursors that NamesFrom did not make are refused, and nothing is read.
func TestCursors(t *testing.T) {
	t.Parallel()
	for cursor, ok := range map[string]bool{
		"": true, "17 2 0badcafe": true,
		"17": false, "17 2": false, "17 2 0badcafe ": false, "17 2 BADCAFE0": false, "17 -1 0badcafe": false, "x 2 0badcafe": false,
	} {
		_, err := parseWalk(cursor)
		if ok != (err == nil) || !ok && !errors.Is(err, ErrRequest) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

// TestWalkOfOtherMastersBeginsAgain: the one it came to may not be the one it would have come to.
func TestWalkOfOtherMastersBeginsAgain(t *testing.T) {
	t.Parallel()
	c := redistest.StartMasters(t, 2)
	s := NewStore(c.Client(t), "berth", "s0", 1, "host")
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("name", i))
		if _, err := s.Do(t.Context(), s.Key(names[i]), 0, []Op{{Verb: Acquire, ID: "s0.a", Terms: terms(1)}}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	for _, cursor := range []string{"", "0 1 00000000", "0 5 00000000"} {
		var all []string
		for {
			step, err := s.NamesFrom(t.Context(), cursor, 1000, false)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, step.Names...)
			if cursor = step.Next; cursor == "" {
				break
			}
		}
		slices.Sort(all)
		if got := slices.Compact(all); !slices.Equal(got, names) {
			t.Errorf("found %v", got)
		}
	}
}

// TestLongestRenewalOfALoneLease: a number with more than twelve digits is no TTL, also for a lease
// that nobody else has come near, which is renewed in a short way.
func TestLongestRenewalOfALoneLease(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		r.one(t, Op{Verb: Acquire, ID: "s0.a", Terms: terms(1)})
		r.mustFit(t, []string{"0", "R999999999999", "s0.a"})
		r.mustFit(t, []string{"0", "R1000000000000", "s0.a"})
	})
}
