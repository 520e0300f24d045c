package berthhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/internal/testkit/hostile"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// flooded is a Handler of two permits for each tenant, on a real server, that
// fails open, and what happened to it.
type flooded struct {
	handler http.Handler
	client  *berth.Client
	server  *redistest.Server
	opened  atomic.Int32
	honest  gauge // who works for the tenant "honest"
}

const (
	floodPool = 10
	maxHold   = time.Second
)

func newFlooded(t *testing.T) *flooded {
	t.Helper()
	f := &flooded{server: redistest.Start(t)}
	client, err := berth.New(f.server.Client(t, func(o *redis.Options) { o.PoolSize = floodPool }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	f.client = client
	f.handler = newHandler(t, client, 2, http.HandlerFunc(f.work),
		berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") }),
		berthhttp.MaxHold(maxHold),
		berthhttp.FailOpen(func(_ *http.Request, why error) {
			if f.opened.Add(1) == 1 {
				t.Errorf("it opened: %v", why)
			}
		}))
	return f
}

// work reads the body, and counts who works for the honest tenant with a lease. Who is so slow
// that the lease is lost by then must come again.
func (f *flooded) work(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "too slow", http.StatusRequestTimeout)
		return
	}
	if r.Header.Get("X-Tenant") == "honest" {
		if lease, ok := berth.FromContext(r.Context()); !ok || !lease.Valid() {
			http.Error(w, "too late", http.StatusServiceUnavailable)
			return
		}
		f.honest.enter()
		defer f.honest.leave()
	}
	fmt.Fprint(w, "done")
}

// hostileKey is different for each i, and not nice to any of them.
func hostileKey(i int) string {
	keys := hostile.Keys()
	return strings.Repeat(keys[i%len(keys)], 1+i%3) + strconv.Itoa(i)
}

// TestKeysOfStrangers: 10,000 keys at once, or 1,000 with the race detector, chosen by strangers, and
// slow bodies on the key of somebody else. Redis is well, so nothing passes without a permit;
// connections and waiting requests are bounded; the tenant is served; and nothing is left behind.
func TestKeysOfStrangers(t *testing.T) {
	f := newFlooded(t)
	srv := httptest.NewServer(f.handler)
	t.Cleanup(srv.Close)
	served(t, srv, "honest")
	before := runtime.NumGoroutine()

	slow := slowBodies(t, srv.Listener.Addr().String(), 20)
	var flood sync.WaitGroup
	var codes [600]atomic.Int32
	for i := range floodKeys {
		flood.Go(func() {
			codes[f.stranger(t, i)].Add(1)
		})
	}
	connections := 0
	for range 5 { // beside the slow bodies, whose permits come free, and the flood
		served(t, srv, "honest")
		connections = max(connections, f.connections(t))
	}
	flood.Wait()
	slow()

	if n := f.opened.Load(); n != 0 {
		t.Errorf("%d requests passed without a permit although Redis was there", n)
	}
	if _, peak, all := f.honest.read(); peak > 2 || all < 6 {
		t.Errorf("the honest tenant was served %d times, %d at once", all, peak)
	}
	// go-redis may have twice its pool open for a moment. The others are the
	// subscription, a look, and the test's own.
	if most := 2*floodPool + 3; connections > most {
		t.Errorf("%d connections to Redis, want at most %d", connections, most)
	}
	t.Logf("200: %d, 429: %d, 503: %d; connections: %d", codes[200].Load(), codes[429].Load(), codes[503].Load(), connections)
	if sum := codes[200].Load() + codes[429].Load() + codes[503].Load(); sum != floodKeys {
		t.Errorf("%d of %d requests had an answer of ours", sum, floodKeys)
	}
	eventually(t, "a stranger is served", func() bool { return f.stranger(t, 0) == http.StatusOK })
	f.nothingLeft(t, before)
}

// stranger makes a request with a key of a stranger, and returns the status of the answer.
func (f *flooded) stranger(t *testing.T, i int) int {
	r := get(t.Context(), t, "/")
	r.Header["X-Tenant"], r.Body = []string{hostileKey(i)}, http.NoBody
	rec := httptest.NewRecorder()
	f.handler.ServeHTTP(rec, r)
	return rec.Code
}

// served has one honest request served, however often it is told to come again.
func served(t *testing.T, srv *httptest.Server, tenant string) {
	t.Helper()
	eventually(t, "an honest request is served", func() bool {
		r := get(t.Context(), t, srv.URL)
		r.Header.Set("X-Tenant", tenant)
		resp, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode == http.StatusOK
	})
}

// slowBodies opens n connections whose requests never come to their end. The
// function that it returns closes them.
func slowBodies(t *testing.T, addr string, n int) (stop func()) {
	t.Helper()
	var conns []net.Conn
	for range n {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Tenant: honest\r\nContent-Length: 100\r\n\r\nslow")
	}
	return func() {
		for _, conn := range conns {
			conn.Close()
		}
	}
}

// connections returns how many connections the server has: the least of three looks, because it
// notices a little later that some were closed.
func (f *flooded) connections(t *testing.T) int {
	t.Helper()
	least := math.MaxInt
	for range 3 {
		eventually(t, "the server tells of its connections", func() bool {
			value, err := f.server.Info("connected_clients")
			n, none := strconv.Atoi(value)
			if err == nil && none == nil {
				least = min(least, n)
			}
			return err == nil && none == nil
		})
	}
	return least
}

// nothingLeft checks that leases, places in line, goroutines and the memory of
// names go.
func (f *flooded) nothingLeft(t *testing.T, goroutines int) {
	t.Helper()
	eventually(t, "all permits come back", func() bool {
		for s, err := range berthadmin.Of(f.client).List(context.Background()) {
			if err != nil && !errors.Is(err, berth.ErrUnreachable) {
				t.Fatal(err)
			}
			if err != nil || s.InUse+s.Waiting > 0 {
				return false
			}
		}
		return true
	})
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() < goroutines+50 })
}
