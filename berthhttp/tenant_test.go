package berthhttp_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// TestTenantsShareOneLimit: a tenant's burst leaves room between its requests for those of others,
// and a request without a tenant is nobody's.
func TestTenantsShareOneLimit(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 1, endless, berthhttp.Key(nil), berthhttp.Tenant(berthhttp.ByHeader("X-Tenant")))
		resp, err := tr.RoundTrip(ofTenant(t, "greedy"))
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range []string{"greedy", "greedy", "greedy", "small one", ""} {
			go func() {
				resp, err := tr.RoundTrip(ofTenant(t, tenant))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			}()
			synctest.Wait()
		}
		st, err := berthadmin.Of(client).Show(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		var queue []string
		for _, w := range st.Queue {
			queue = append(queue, w.Tenant)
		}
		if got := strings.Join(queue, ","); got != "greedy,greedy,small%20one,,greedy" || st.Leases[0].Tenant != "greedy" {
			t.Errorf("in the queue are %q behind %q", got, st.Leases[0].Tenant)
		}
		resp.Body.Close()
		want(t, client, "api", 0, 0)
	})
}
