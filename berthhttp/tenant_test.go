package berthhttp_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
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

// TestBurstLeavesRoomForOtherTenants: MaxWaiting lets a tenant that is alone have all of it, and with
// others its part; who comes late with little gets in.
func TestBurstLeavesRoomForOtherTenants(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 1, endless, berthhttp.Key(nil), berthhttp.MaxWaiting(12), berthhttp.Tenant(berthhttp.ByHeader("X-Tenant")))
		first, err := tr.RoundTrip(ofTenant(t, "served"))
		if err != nil {
			t.Fatal(err)
		}
		waits := func(tenant string, n int) (let int) {
			for range n {
				refused, req := make(chan error, 1), ofTenant(t, tenant)
				go func() {
					resp, err := tr.RoundTrip(req)
					if err == nil {
						resp.Body.Close()
						return
					}
					refused <- err
				}()
				synctest.Wait()
				select {
				case err := <-refused:
					if !errors.Is(err, berthhttp.ErrMaxWaiting) || (tenant != "") != strings.Contains(err.Error(), fmt.Sprintf(" allows for tenant %q", tenant)) {
						t.Error(err)
					}
				default:
					let++
				}
			}
			return let
		}
		var got []int
		for _, burst := range []struct {
			tenant string
			n      int
		}{{"greedy", 20}, {"small", 10}, {"", 10}, {"greedy", 1}, {"other", 1}} {
			got = append(got, waits(burst.tenant, burst.n))
		}
		if want := []int{12, 6, 4, 0, 1}; !slices.Equal(got, want) { // of 12 a half, a third, and a quarter at the end
			t.Errorf("let in are %v, want %v", got, want)
		}
		first.Body.Close()
		want(t, client, "api", 0, 0)
		if n := waits("greedy", 1); n != 1 {
			t.Error("nobody waits, and it is refused")
		}
	})
}

// TestTenantLearnsWhoseQueueIsFull: in the queue, and in this process. The answer has no names.
func TestTenantLearnsWhoseQueueIsFull(t *testing.T) {
	for name, opt := range map[string]berthhttp.Option{
		"queue": berthhttp.LeaseOptions(berth.QueueLimit(1)), "process": berthhttp.MaxWaiting(1),
	} {
		bubble(t, func(t *testing.T, store *berthtest.Store) {
			client, g := store.Client(), make(gate)
			h := newHandler(t, client, 1, g, opt, berthhttp.MaxWait(time.Hour), berthhttp.Tenant(berthhttp.ByHeader("X-Tenant")))
			for range 2 { // one works, one waits
				serve(t, h, ofTenant(t, "greedy"))
				synctest.Wait()
			}
			want(t, client, "work", 1, 1)
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, ofTenant(t, "greedy"))
			if line := "busy: the queue is full for the tenant of this request; try again in "; rec.Code != 429 || !strings.HasPrefix(rec.Body.String(), line) {
				t.Errorf("%s: answered %d %q", name, rec.Code, rec.Body)
			}
			close(g)
		})
	}
}
