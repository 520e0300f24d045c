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
			d.of("", 12, 60)
			d.of("", 30, 50)
		}, "T1"},
		{"a few of another tenant pass the first of a line", func(d *diary) {
			passes(d, manyTurns-1)
			d.of("a", 12, 300)
		}, ""},
		{"many of another tenant pass the first of a line", func(d *diary) {
			passes(d, manyTurns)
			d.of("a", 12, 300)
		}, "T3"},
		{"many of another tenant pass the second of a line", func(d *diary) {
			passes(d, manyTurns)
			d.of("a", 11, 40)
			d.of("a", 12, 300)
		}, ""},
	})
}
