package berth_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
)

func badNames() []string {
	return []string{
		"", " ", "\t", "\u00a0", "a\nb", "a\x00b", "\x1b[31mred", "}", "}x", "{", "a}b{c", "{}", strings.Repeat("x", berth.MaxName+1),
		strings.Repeat("x", 1<<20), "\xff\xfe", "a\xc3", "a\u202eb", "\u2066x\u2069", "\u200ex", "\u0085",
	}
}

func TestBadNames(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		for _, bad := range badNames() {
			_, err := p.Semaphore(bad, 1)
			e.invalid(err, "name", fmt.Sprintf("name %.20q", bad))
		}
		e.nothingSent(p)
	})
}

// Odd names are no bad ones: each is a semaphore of its own.
func TestOddNames(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		names := []string{
			"x:q", "s:order", "<script>alert(1)</script>", `"; redis.call("FLUSHALL") --`, `*[a-z]\`, "🚢", "é", "e\u0301", "a b", ":", "%s%n",
			"KEYS[1]", strings.Repeat("é", berth.MaxName/2), "settings", "$-1\\r\\n",
		}
		for _, name := range names {
			l := e.hold(p.named(name, 1))
			if l.Name() != name || l.Slot() != 0 {
				e.t.Errorf("%q became %q, slot %d", name, l.Name(), l.Slot())
			}
		}
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		if len(all) != len(names) {
			e.t.Errorf("%d listed of %d", len(all), len(names))
		}
	})
}

// invalid checks for the typed error, which names the argument.
func (e *env) invalid(err error, what, given string) {
	e.t.Helper()
	var invalid *berth.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, berth.ErrInvalid) || invalid.What != what || invalid.Reason == "" {
		e.t.Errorf("%s: error %v, want an InvalidError about %s", given, err, what)
	} else if len(err.Error()) > 300 {
		e.t.Errorf("%s: the message has %d bytes", given, len(err.Error()))
	}
}

func (e *env) nothingSent(p *peer) {
	e.t.Helper()
	if n := p.net.Count(); n > 0 {
		e.t.Errorf("%d commands sent", n)
	}
	e.unchanged(map[string]string{})
}

func TestBadLimits(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		for _, bad := range []int{-1, math.MinInt, berth.MaxLimit + 1, math.MaxInt} {
			_, err := p.Semaphore(name, bad)
			e.invalid(err, "limit", fmt.Sprint("limit ", bad))
		}
		e.nothingSent(p)
	})
}

func TestBadOptions(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(1)
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
			_, err := p.Semaphore(name, 1, c.option)
			e.invalid(err, c.what, given)
			_, err = s.With(c.option)
			e.invalid(err, c.what, given)
			_, err = s.Acquire(e.ctx, c.option)
			e.invalid(err, c.what, given)
			_, err = s.TryAcquire(e.ctx, c.option)
			e.invalid(err, c.what, given)
		}
		for _, d := range []time.Duration{-1, math.MaxInt64} {
			_, err := s.Acquire(e.ctx, berth.HeadStart(d))
			e.invalid(err, "HeadStart", d.String())
		}
		e.nothingSent(p)
	})
}

// The outermost values that are allowed, with labels that only look dangerous.
func TestExtremesWork(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(berth.MaxLimit, berth.TTL(berth.MaxTTL), berth.MaxHold(berth.MaxTTL), berth.QueueLimit(berth.MaxLimit))
		l := e.hold(s, berth.Weight(berth.MaxLimit), berth.Label("<b>'\"%s\\ "+strings.Repeat("é", 100)))
		e.trusts(l, "the longest TTL")
		r := e.queue(s, berth.Weight(berth.MaxLimit), berth.HeadStart(berth.MaxTTL))
		st := e.show()
		if st.InUse != berth.MaxLimit || st.Leases[0].Label != l.Label() {
			e.t.Errorf("state %+v", st)
		}
		e.release(l)
		e.release(r.granted())
		short, err := p.sem(berth.MaxLimit, berth.TTL(berth.MinTTL), berth.MaxHold(berth.MinTTL)).Acquire(e.ctx)
		if err != nil { // a busy machine is too slow for it
			wantErr(e.t, err, berth.ErrLost)
		} else {
			e.lost(short)
		}
	})
}

func TestNilContexts(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		s := p.sem(1)
		//nolint:staticcheck // that is what it is about
		for what, call := range map[string]func() error{
			"Acquire":    func() error { _, err := s.Acquire(nil); return err },
			"TryAcquire": func() error { _, err := s.TryAcquire(nil); return err },
			"Do":         func() error { return s.Do(nil, nil) },
			"AcquireAll": func() error { _, err := berth.AcquireAll(nil, s); return err },
			"Adopt":      func() error { _, err := p.Adopt(nil, "berth1.x"); return err },
			"List":       func() error { _, err := listed(p.Inspector(), nil); return err },
			"Show":       func() error { _, err := p.Inspector().Show(nil, name); return err },
			"Pin":        func() error { return p.Inspector().Pin(nil, name, 1) },
			"Purge":      func() error { return p.Inspector().Purge(nil, name) },
		} {
			e.invalid(call(), "context", what)
		}
		e.nothingSent(p)
	})
}

func TestBadClients(t *testing.T) {
	t.Parallel()
	e := &env{t: t}
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	var none *redis.Client
	for given, rdb := range map[string]redis.UniversalClient{"nil": nil, "nil pointer": none} {
		_, err := berth.New(rdb)
		e.invalid(err, "client", given)
	}
	_, err := berth.New(rdb, nil)
	e.invalid(err, "option", "nil option")
	for _, bad := range []string{"", " ", "a b", "a{b", "a}b", "é", "a\n", "a*", "a/b", strings.Repeat("x", 65), "a?", "[a]"} {
		_, err := berth.New(rdb, berth.Prefix(bad))
		e.invalid(err, "prefix", fmt.Sprintf("%q", bad))
	}
	_, err = berth.New(rdb, berth.Prefix("My-app.v2:locks_"))
	e.must(err)
}

// handleOf is a handle with a checksum that is right.

func TestBadHandles(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		good, err := e.hold(p.sem(1, berth.TTL(time.Minute))).Detach(e.ctx)
		e.must(err)
		replaced := func(old, by string) string {
			if !strings.Contains(good, old) {
				e.t.Fatalf("no %s in %s", old, good)
			}
			return strings.Replace(good, old, by, 1)
		}
		id := good[strings.LastIndex(good, "/")+1:]
		bad := []string{
			"", " ", "/", "berth1", "berth1/", "berth1///", "berth1////", "berth2" + good[6:], strings.ToUpper(good), good[:len(good)-1],
			good + "0", good[1:], good + "/", "/" + good, good + "/x", replaced("/s/", "/"), replaced("/s/", "//"), replaced("/s/", "/%7Dx/"),
			replaced("/s/", "/%zz/"), replaced("/s/", "/s%00/"), replaced("/s/", "/%1b[2J/"), replaced("/s/", "/"+strings.Repeat("x", 1<<20)+"/"),
			replaced(id, "state"), replaced(id, id+"-1"), replaced(id, strings.ToUpper(id)), replaced(id, strings.Replace(id, ".", "", 1)),
			replaced("/"+e.prefix+"/", "/x/"), replaced("/"+e.prefix+"/", "//"),
		}
		before := e.keys()
		for _, h := range bad {
			if l, err := q.Adopt(e.ctx, h); !errors.Is(err, berth.ErrHandle) {
				e.t.Errorf("%.60q: lease %v, error %v", h, l, err)
			}
		}
		e.unchanged(before)
		l, err := q.Adopt(e.ctx, " "+good+"\n") // as a shell may leave it
		e.must(err)
		e.release(l)
		_, err = p.Adopt(e.ctx, good)
		wantErr(e.t, err, berth.ErrLost)
	})
}
