package promise_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func badNames() []string {
	return []string{
		"", " ", "\t", "\u00a0", "a\nb", "a\x00b", "\x1b[31mred", "}", "}x", "{", "a}b{c", "{}", strings.Repeat("x", berth.MaxName+1),
		strings.Repeat("x", 1<<20), "\xff\xfe", "a\xc3", "a\u202eb", "\u2066x\u2069", "\u200ex", "\u0085",
	}
}

func TestBadNames(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		for _, bad := range badNames() {
			_, err := p.Semaphore(bad, 1)
			invalid(e, err, "name", fmt.Sprintf("name %.20q", bad))
			invalid(e, berthadmin.CheckName(bad), "name", fmt.Sprintf("name %.20q", bad))
		}
		nothingSent(e, p)
	})
}

// Odd names are no bad ones: each is a semaphore of its own.
func TestOddNames(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		names := []string{
			"x:q", "s:order", "<script>alert(1)</script>", `"; redis.call("FLUSHALL") --`, `*[a-z]\`, "🚢", "é", "e\u0301", "a b", ":", "%s%n",
			"KEYS[1]", strings.Repeat("é", berth.MaxName/2), "settings", "$-1\\r\\n",
		}
		for _, name := range names {
			e.Must(berthadmin.CheckName(name))
			l := e.Hold(p.Named(name, 1))
			if l.Name() != name || l.Slot() != 0 {
				e.Errorf("%q became %q, slot %d", name, l.Name(), l.Slot())
			}
		}
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) != len(names) {
			e.Errorf("%d listed of %d", len(all), len(names))
		}
	})
}

// invalid checks for the typed error, which names the argument.
func invalid(e *testenv.Env, err error, what, given string) {
	e.Helper()
	var invalid *berth.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, berth.ErrInvalid) || invalid.What != what || invalid.Reason == "" {
		e.Errorf("%s: error %v, want an InvalidError about %s", given, err, what)
	} else if len(err.Error()) > 300 {
		e.Errorf("%s: the message has %d bytes", given, len(err.Error()))
	}
}

func nothingSent(e *testenv.Env, p *testenv.Peer) {
	e.Helper()
	if n := p.Net.Count(); n > 0 {
		e.Errorf("%d commands sent", n)
	}
	e.Unchanged(map[string]string{})
}

func TestBadLimits(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		for _, bad := range []int{-1, math.MinInt, berth.MaxLimit + 1, math.MaxInt} {
			_, err := p.Semaphore(testenv.Name, bad)
			invalid(e, err, "limit", fmt.Sprint("limit ", bad))
		}
		nothingSent(e, p)
	})
}

func TestBadOptions(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1)
		for given, c := range map[string]struct {
			what   string
			option berth.Option
		}{
			"TTL 0": {"TTL", berth.TTL(0)}, "TTL -1": {"TTL", berth.TTL(-1)}, "TTL 1ns": {"TTL", berth.TTL(1)},
			"TTL short": {"TTL", berth.TTL(berth.MinTTL - 1)}, "TTL long": {"TTL", berth.TTL(berth.MaxTTL + 1)},
			"TTL 292 years": {"TTL", berth.TTL(math.MaxInt64)}, "TTL min": {"TTL", berth.TTL(math.MinInt64)},
			"weight 0": {"weight", berth.Weight(0)}, "weight -1": {"weight", berth.Weight(-1)},
			"weight huge": {"weight", berth.Weight(berth.MaxLimit + 1)}, "weight max": {"weight", berth.Weight(math.MaxInt)},
			"max hold -1": {"MaxHold", berth.MaxHold(-1)}, "max hold 1ns": {"MaxHold", berth.MaxHold(1)},
			"max hold max": {"MaxHold", berth.MaxHold(math.MaxInt64)},
			"queue -1":     {"QueueLimit", berth.QueueLimit(-1)}, "queue max": {"QueueLimit", berth.QueueLimit(math.MaxInt)},
			"label 1 MB": {"label", berth.Label(strings.Repeat("x", 1<<20))}, "label NUL": {"label", berth.Label("a\x00b")},
			"label escape": {"label", berth.Label("\x1b]0;x\a")}, "label line": {"label", berth.Label("a\nb")},
			"label bidi": {"label", berth.Label("a\u202eb")}, "label utf8": {"label", berth.Label("\xff")},
			"nil": {"option", nil},
		} {
			_, err := p.Semaphore(testenv.Name, 1, c.option)
			invalid(e, err, c.what, given)
			_, err = s.With(c.option)
			invalid(e, err, c.what, given)
			_, err = s.Acquire(e.Ctx, c.option)
			invalid(e, err, c.what, given)
			_, err = s.TryAcquire(e.Ctx, c.option)
			invalid(e, err, c.what, given)
		}
		for _, d := range []time.Duration{-1, math.MaxInt64} {
			_, err := s.Acquire(e.Ctx, berth.HeadStart(d))
			invalid(e, err, "HeadStart", d.String())
		}
		nothingSent(e, p)
	})
}

// The outermost values that are allowed, with labels that only look dangerous.
func TestExtremesWork(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(berth.MaxLimit, berth.TTL(berth.MaxTTL), berth.MaxHold(berth.MaxTTL), berth.QueueLimit(berth.MaxLimit))
		l := e.Hold(s, berth.Weight(berth.MaxLimit), berth.Label("<b>'\"%s\\ "+strings.Repeat("é", 100)))
		trusts(e, l, "the longest TTL")
		r := e.Queue(s, berth.Weight(berth.MaxLimit), berth.HeadStart(berth.MaxTTL))
		st := e.Show()
		if st.InUse != berth.MaxLimit || st.Leases[0].Label != l.Label() {
			e.Errorf("state %+v", st)
		}
		e.Release(l)
		e.Release(r.Granted())
		short, err := p.Sem(berth.MaxLimit, berth.TTL(berth.MinTTL), berth.MaxHold(berth.MinTTL)).Acquire(e.Ctx)
		switch {
		case err == nil:
			e.Lost(short)
		case !e.Exact && errors.Is(err, berth.ErrUnreachable):
			// With such a TTL a call may take 100 ms, and the machine is busy.
		default:
			e.WantErr(err, berth.ErrLost)
		}
	})
}

func TestNilContexts(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		s := p.Sem(1)
		//nolint:staticcheck // that is what it is about
		for what, call := range map[string]func() error{
			"Acquire":    func() error { _, err := s.Acquire(nil); return err },
			"TryAcquire": func() error { _, err := s.TryAcquire(nil); return err },
			"Do":         func() error { return s.Do(nil, func(context.Context) error { return nil }) },
			"AcquireAll": func() error { _, err := berth.AcquireAll(nil, s); return err },
			"Adopt":      func() error { _, err := p.Adopt(nil, "berth1.x"); return err },
			"List":       func() error { _, err := testenv.Listed(p.Inspector().List(nil)); return err },
			"Show":       func() error { _, err := p.Inspector().Show(nil, testenv.Name); return err },
			"Pin":        func() error { return p.Inspector().Pin(nil, testenv.Name, 1) },
			"Purge":      func() error { return p.Inspector().Purge(nil, testenv.Name) },
		} {
			invalid(e, call(), "context", what)
		}
		nothingSent(e, p)
	})
}

func TestBadClients(t *testing.T) {
	t.Parallel()
	e := &testenv.Env{T: t}
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	var none *redis.Client
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for given, rdb := range map[string]redis.UniversalClient{
		"nil": nil, "nil pointer": none, "ring": ring, "wrapped": struct{ *redis.Client }{rdb},
	} {
		_, err := berth.New(rdb)
		invalid(e, err, "client", given)
		_, err = berthadmin.New(rdb, berthadmin.Options{})
		invalid(e, err, "client", given)
	}
	_, err := berth.New(rdb, nil)
	invalid(e, err, "option", "nil option")
	for _, bad := range []string{"", " ", "a b", "a{b", "a}b", "é", "a\n", "a*", "a/b", strings.Repeat("x", 65), "a?", "[a]"} {
		_, err := berth.New(rdb, berth.Prefix(bad))
		invalid(e, err, "prefix", fmt.Sprintf("%q", bad))
		if bad != "" { // the default
			_, err = berthadmin.New(rdb, berthadmin.Options{Prefix: bad})
			invalid(e, err, "prefix", fmt.Sprintf("%q", bad))
		}
	}
	_, err = berth.New(rdb, berth.Prefix("My-app.v2:locks_"))
	e.Must(err)
	_, err = berthadmin.New(rdb, berthadmin.Options{Prefix: "My-app.v2:locks_"})
	e.Must(err)
}

func TestBadHandles(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		handle, err := e.Hold(p.Sem(1, berth.TTL(time.Minute))).Detach(e.Ctx)
		e.Must(err)
		good := string(handle)
		replaced := func(old, by string) string {
			if !strings.Contains(good, old) {
				e.Fatalf("no %s in %s", old, good)
			}
			return strings.Replace(good, old, by, 1)
		}
		id := good[strings.LastIndex(good, "/")+1:]
		bad := []string{
			"", " ", "/", "berth1", "berth1/", "berth1///", "berth1////", "berth2" + good[6:], strings.ToUpper(good), good[:len(good)-1],
			good + "0", good[1:], good + "/", "/" + good, good + "/x", replaced("/s/", "/"), replaced("/s/", "//"), replaced("/s/", "/%7Dx/"),
			replaced("/s/", "/%zz/"), replaced("/s/", "/s%00/"), replaced("/s/", "/%1b[2J/"), replaced("/s/", "/"+strings.Repeat("x", 1<<20)+"/"),
			replaced(id, "state"), replaced(id, id+"-1"), replaced(id, strings.ToUpper(id)), replaced(id, strings.Replace(id, ".", "", 1)),
			replaced("/"+e.Prefix+"/", "/x/"), replaced("/"+e.Prefix+"/", "//"),
		}
		before := e.Keys()
		for _, h := range bad {
			if l, err := q.Adopt(e.Ctx, berth.Handle(h)); !errors.Is(err, berth.ErrHandle) {
				e.Errorf("%.60q: lease %v, error %v", h, l, err)
			}
		}
		for _, o := range []berth.Option{berth.Weight(2), berth.MaxHold(time.Hour), berth.TTL(0), nil} { // not of an adopted lease, or out of bounds
			if l, err := q.Adopt(e.Ctx, handle, berth.TTL(time.Minute), o); !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("with option %T: lease %v, error %v", o, l, err)
			}
		}
		e.Unchanged(before)
		l, err := q.Adopt(e.Ctx, berth.Handle(" "+good+"\n")) // as a shell may leave it
		e.Must(err)
		e.Release(l)
		_, err = p.Adopt(e.Ctx, handle)
		e.WantErr(err, berth.ErrLost)
	})
}
