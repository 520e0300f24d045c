package main

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
)

// pipes is a listener without a network: in a bubble time stands still for what is
// on its way, and what the site sees is what the crawlers did.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.ended); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// bubble has two workers crawl these hosts of a fresh site, in synctest time, and
// beside them f.
func bubble(t *testing.T, j job, hosts []string, f func(*site, *berthtest.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		listener := pipes{make(chan net.Conn), make(chan struct{})}
		s := serveSite(listener)
		s.mark = 20
		maps.DeleteFunc(s.hosts, func(name string, _ *siteHost) bool { return !slices.Contains(hosts, name) })
		client := newWeb(j)
		client.Transport.(*http.Transport).DialContext = listener.dial
		if _, err := j.start(t.Context(), store.Redis(), client, s.seeds()); err != nil {
			t.Fatal(err)
		}
		var workers sync.WaitGroup
		for range 2 {
			berths := store.Client(berth.Prefix("crawler"))
			workers.Go(func() {
				if err := j.run(t.Context(), store.Redis(), berths, client); err != nil {
					t.Error(err)
				}
			})
		}
		f(s, store)
		workers.Wait()
		client.CloseIdleConnections()
		s.close()
		<-time.After(time.Second) // in which the server lingers on connections that it closes
		judge(t, s, j, 2)
	})
}

func bubbleJob() job {
	return job{
		Name: "test", PerHost: 2, Total: 7, Most: 150,
		Timeout: 1500 * time.Millisecond, TTL: 15 * time.Second,
	}
}

// TestDelaysAreKept: a host that asks for a delay has it between all requests,
// whichever process they come from. One that never answers is left alone.
func TestDelaysAreKept(t *testing.T) {
	bubble(t, bubbleJob(), []string{"slow.test", "silent.test"}, func(s *site, _ *berthtest.Store) {
		<-time.After(time.Minute)
		delayed := s.hosts["slow.test"]
		delayed.mu.Lock()
		defer delayed.mu.Unlock()
		if len(delayed.times) != len(delayed.want) {
			t.Errorf("%d requests, want %d", len(delayed.times), len(delayed.want))
		}
		for i := 1; i < len(delayed.times); i++ {
			if gap := delayed.times[i].Sub(delayed.times[i-1]); gap < delayed.delay {
				t.Errorf("%v between requests, want %v", gap, delayed.delay)
			}
		}
	})
}

// TestNothingIsFetchedWithoutRedis: once no lease can be relied on, nothing is
// requested until Redis is back, and then the crawl comes to its end.
func TestNothingIsFetchedWithoutRedis(t *testing.T) {
	for name, away := range map[string]func(*berthtest.Store){
		"away":  (*berthtest.Store).Down,
		"hangs": func(s *berthtest.Store) { s.Slow(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			j := bubbleJob()
			j.TTL = 2 * time.Second
			bubble(t, j, []string{"three.test"}, func(s *site, store *berthtest.Store) {
				<-s.full
				away(store)
				<-time.After(j.TTL)
				before := s.count()
				<-time.After(30 * time.Second)
				if n := s.count() - before; n != 0 {
					t.Errorf("%d requests without a permit", n)
				}
				store.Slow(0)
				store.Up()
			})
		})
	}
}
