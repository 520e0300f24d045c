package promises

import (
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// of is a request that is in line from a millisecond after it was asked, on behalf of a tenant
// whose requests stand 100 ms apart; its lease is over at once.
func (d *diary) of(tenant string, asked, granted history.Time) {
	first := len(d.events)
	d.release(d.lease("tenants", asked, asked+1, granted, granted+1, granted+300, 0), "tenants", granted+2, granted+3)
	for i := range d.events[first:] {
		if e := &d.events[first+i]; e.Lease == 0 && tenant != "" {
			e.Tenant, e.Pace = tenant, 100*time.Millisecond
		}
	}
}

// TestTenants: what the judge must see of turns, and what it must let pass.
func TestTenants(t *testing.T) {
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
		{"the first of a tenant is passed", func(d *diary) {
			d.of("a", 12, 60)
			d.of("b", 30, 50)
		}, "T2"},
		{"the second of a tenant is passed after its turn", func(d *diary) {
			d.of("a", 10, 40)
			d.of("a", 12, 160)
			d.of("b", 130, 150)
		}, "T2"},
		{"the third of a tenant is passed before its turn", func(d *diary) {
			d.of("a", 10, 40)
			d.of("a", 12, 60)
			d.of("a", 14, 160)
			d.of("b", 130, 150)
		}, ""},
		{"a turn is kept after the queue was empty", func(d *diary) {
			d.of("a", 10, 40)
			d.of("a", 12, 60)
			d.of("b", 100, 130)
			d.of("a", 110, 160)
			d.of("b", 120, 150)
		}, "T2"},
		{"a turn is kept while somebody waits", func(d *diary) {
			d.of("a", 10, 40)
			d.of("a", 12, 60)
			d.of("c", 50, 105)
			d.of("b", 100, 130)
			d.of("a", 110, 160)
			d.of("b", 120, 150)
		}, ""},
	})
}
