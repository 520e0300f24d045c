package promises

import (
	"testing"

	"github.com/berth-go/berth/dev/verify/history"
)

// of is a request that is in line from a millisecond after it was asked, on behalf of a tenant; its
// lease is over at once.
func (d *diary) of(tenant string, asked, granted history.Time) {
	first := len(d.events)
	d.release(d.lease("tenants", asked, asked+1, granted, granted+1, granted+300, 0), "tenants", granted+2, granted+3)
	for i := range d.events[first:] {
		if e := &d.events[first+i]; e.Lease == 0 && tenant != "" {
			e.Tenant = tenant
		}
	}
}

// TestTenants: what the judge must see of turns, and what it must let pass.
func TestTenants(t *testing.T) {
	passes := func(d *diary, n int) {
		for i := range history.Time(n) {
			d.of("b", 30+i, 100+4*i)
		}
	}
	judged(t, []story{
		{"others go between two requests of a tenant", func(d *diary) {
			d.of("a", 10, 40)
			d.of("a", 12, 60)
			d.of("b", 30, 50)
		}, ""},
		{"one of a tenant passes another", func(d *diary) {
			d.of("a", 10, 40)
			d.of("a", 12, 60)
			d.of("a", 30, 50)
		}, "T1"},
		{"one without a tenant passes another", func(d *diary) {
			d.of("a", 5, 9)
			d.of("", 12, 60)
			d.of("", 30, 50)
		}, "T1"},
		{"two of another tenant pass the first of a line", func(d *diary) {
			passes(d, 2)
			d.of("a", 12, 300)
		}, ""},
		{"three of another tenant pass the first of a line", func(d *diary) {
			passes(d, 3)
			d.of("a", 12, 300)
		}, "T3"},
		{"as many as new lines before it have moved it back", func(d *diary) {
			for i := range history.Time(4) {
				d.of(string(rune('c'+i)), 8, 30+4*i)
			}
			passes(d, 4)
			d.of("a", 12, 300)
		}, ""},
		{"more than that", func(d *diary) {
			for i := range history.Time(4) {
				d.of(string(rune('c'+i)), 8, 30+4*i)
			}
			passes(d, 5)
			d.of("a", 12, 300)
		}, "T3"},
		{"many of another tenant pass the second of a line", func(d *diary) {
			passes(d, 9)
			d.of("a", 11, 40)
			d.of("a", 12, 300)
		}, ""},
	})
}

// TestNewTenants: new ones come before one that waits, but not for ever.
func TestNewTenants(t *testing.T) {
	come := func(d *diary, n int, from history.Time) {
		for i := range history.Time(n) {
			d.of(string(rune('b'+i)), from+20*i, from+20*i+10)
		}
	}
	pass := func(n int) func(d *diary) {
		return func(d *diary) {
			come(d, n, 220)
			d.of("a", 212, 500)
		}
	}
	judged(t, []story{
		{"a few", pass(4), ""},
		{"too many", pass(5), "T6"},
		{"known ones", func(d *diary) {
			come(d, 5, 20)
			pass(5)(d)
		}, ""},
	})
}

// TestShares: two tenants that both wait are granted as much, once each has been granted something.
func TestShares(t *testing.T) {
	// both is a queue of two tenants. Of the second, what is left is granted at the end.
	both := func(turns ...string) func(d *diary) {
		return func(d *diary) {
			at := history.Time(5000)
			for _, tenant := range turns {
				at += 10
				d.set(func(e *history.Event) { e.Name, e.Tenant = "tenants-fair", tenant }, func() {
					d.release(d.lease("tenants-fair", 4990, 4991, at, at+1, at+300, 0), "tenants-fair", at+9, at+10)
				})
			}
		}
	}
	judged(t, []story{
		{"in turn", both("a", "b", "a", "b", "a", "b"), ""},
		{"one has had nothing yet", both("a", "a", "a", "a", "a", "a", "a", "b", "a", "b"), ""},
		{"one is a little ahead", both("a", "b", "a", "a", "a", "a", "b"), ""},
		{"one is far ahead", both("a", "b", "a", "a", "a", "a", "a", "a", "b"), "T2"},
	})
}
