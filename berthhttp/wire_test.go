//nolint:bodyclose // what happens to bodies that are not closed, and to requests without one, is the subject
package berthhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// The tests of this file use real connections on the loopback interface.

// patient lets the store take its time: these tests do not judge speed.
var patient = berthhttp.AnswerWithin(time.Minute)

// eventually waits until ok. What it waits for happens in other goroutines that
// nothing can be asked from here.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute) // for machines that do much else
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

// start serves h, over HTTP/1 or HTTP/2, and returns a client for it.
func start(t *testing.T, h http.Handler, http2 bool) (*httptest.Server, *http.Transport) {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	if http2 {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	base := srv.Client().Transport.(*http.Transport)
	t.Cleanup(base.CloseIdleConnections)
	return srv, base
}

func eachProtocol(t *testing.T, f func(t *testing.T, http2 bool)) {
	t.Run("http1", func(t *testing.T) { f(t, false) })
	t.Run("http2", func(t *testing.T) { f(t, true) })
}

// TestLimitOverProcesses: two processes call at once, and the server counts.
func TestLimitOverProcesses(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		const limit, calls = 3, 60
		var g gauge
		srv, base := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			g.enter()
			defer g.leave()
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "done")
		}), http2)
		store := berthtest.New(t)
		var wg sync.WaitGroup
		for range 2 {
			client := &http.Client{Transport: newTransport(t, store.Client(), limit, berthhttp.Base(base), patient)}
			for range calls / 2 {
				wg.Go(func() {
					resp, err := client.Do(get(t.Context(), t, srv.URL))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "done" {
						t.Errorf("read %q, %v", b, err)
					}
				})
			}
		}
		wg.Wait()
		if _, peak, all := g.read(); peak > limit || all != calls {
			t.Errorf("%d calls, %d at once, limit %d", all, peak, limit)
		}
	})
}

// TestConnectionsAreReused: giving back the permit at the end of a body must not
// break the connection.
func TestConnectionsAreReused(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		srv, base := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/empty" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			fmt.Fprint(w, strings.Repeat("x", 1<<16))
		}), http2)
		client := &http.Client{Transport: newTransport(t, berthtest.New(t).Client(), 1, berthhttp.Base(base), patient)}
		// On a slow machine net/http itself gives up a connection now and then: one that
		// has not heard for 50 ms that the request is written, when the answer is there.
		for range 100 {
			made := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
				if !c.Reused {
					made++
				}
			}})
			for _, path := range []string{"/", "/empty", "/", "/empty", "/"} {
				resp, err := client.Do(get(ctx, t, srv.URL+path))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			client.CloseIdleConnections()
			if made == 1 {
				return
			}
		}
		t.Error("no five requests in a row went through one connection")
	})
}

// TestLossBreaksARealCall: the server sees the request end.
func TestLossBreaksARealCall(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		ended := make(chan struct{})
		srv, base := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "first")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(ended)
		}), http2)
		store := berthtest.New(t)
		var lease *berth.Lease
		spy := roundTripper(func(r *http.Request) (*http.Response, error) {
			lease, _ = berth.FromContext(r.Context())
			return base.RoundTrip(r)
		})
		client := &http.Client{Transport: newTransport(t, store.Client(), 1, berthhttp.Base(spy), patient)}
		resp, err := client.Do(get(t.Context(), t, srv.URL))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		store.Lose(lease)
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, berth.ErrLost) {
			t.Errorf("reading returned %v, want ErrLost", err)
		}
		<-ended
	})
}

// echoUpgrade switches to a protocol that sends back what it gets, until the
// client closes its direction.
func echoUpgrade(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	rw.Flush()
	_, _ = io.Copy(conn, rw)
	fmt.Fprint(conn, "bye")
}

func upgrade(ctx context.Context, t *testing.T, rt http.RoundTripper, url string) io.ReadWriteCloser {
	t.Helper()
	req := get(ctx, t, url)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, body %T", resp.StatusCode, resp.Body)
	}
	return conn
}

func echo(t *testing.T, conn io.ReadWriter, s string) {
	t.Helper()
	if _, err := io.WriteString(conn, s); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(s))
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != s {
		t.Fatalf("the echo is %q, %v", b, err)
	}
}

// TestUpgrade: after a switch of protocols the permit lasts as long as the
// connection, whatever becomes of the request's context.
func TestUpgrade(t *testing.T) {
	srv, base := start(t, http.HandlerFunc(echoUpgrade), false)
	client := berthtest.New(t).Client()
	tr := newTransport(t, client, 1, berthhttp.Base(base), patient, berthhttp.Key(nil))
	ctx, cancel := context.WithCancel(t.Context())
	conn := upgrade(ctx, t, tr, srv.URL)
	cancel()
	echo(t, conn, "hello")
	if n := state(t, client, "api").InUse; n != 1 {
		t.Errorf("%d permits are out", n)
	}
	if hc, ok := conn.(interface{ CloseWrite() error }); ok { // since Go 1.25
		if err := hc.CloseWrite(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(conn); err != nil || string(rest) != "bye" {
			t.Errorf("after CloseWrite: %q, %v", rest, err)
		}
		if n := state(t, client, "api").InUse; n != 1 {
			t.Errorf("after the end of one direction %d permits are out", n)
		}
	}
	conn.Close()
	eventually(t, "the permit comes back", func() bool { return state(t, client, "api").InUse == 0 })
}

func TestLossClosesAnUpgradedConnection(t *testing.T) {
	srv, base := start(t, http.HandlerFunc(echoUpgrade), false)
	store := berthtest.New(t)
	var lease *berth.Lease
	spy := roundTripper(func(r *http.Request) (*http.Response, error) {
		lease, _ = berth.FromContext(r.Context())
		return base.RoundTrip(r)
	})
	conn := upgrade(t.Context(), t, newTransport(t, store.Client(), 1, berthhttp.Base(spy), patient), srv.URL)
	defer conn.Close()
	echo(t, conn, "hello")
	store.Lose(lease)
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
}

// TestProxy: Transport below httputil.ReverseProxy, with a Handler above it.
func TestProxy(t *testing.T) {
	backend, base := start(t, http.HandlerFunc(echoUpgrade), false)
	target, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	store := berthtest.New(t)
	client := store.Client()
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = newTransport(t, client, 1, berthhttp.Base(base), patient, berthhttp.Key(nil))
	front, frontBase := start(t, newHandler(t, client, 1, proxy, patient, berthhttp.MaxHold(time.Hour)), false)
	conn := upgrade(t.Context(), t, frontBase, front.URL)
	echo(t, conn, "through")
	if a, b := state(t, client, "api").InUse, state(t, client, "work").InUse; a != 1 || b != 1 {
		t.Errorf("%d and %d permits are out", a, b)
	}
	conn.Close()
	eventually(t, "both permits come back", func() bool {
		return state(t, client, "api").InUse+state(t, client, "work").InUse == 0
	})
}

// TestHandlerStreams: a limited handler flushes, reads and writes at once.
func TestHandlerStreams(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		client := berthtest.New(t).Client()
		h := newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil && !http2 {
				t.Error(err)
			}
			if err := rc.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			for s := bufio.NewScanner(r.Body); s.Scan(); {
				fmt.Fprintln(w, s.Text())
				if err := rc.Flush(); err != nil {
					t.Error(err)
				}
			}
		}), patient, berthhttp.MaxWait(time.Minute))
		srv, base := start(t, h, http2)
		pr, pw := io.Pipe()
		req := get(t.Context(), t, srv.URL)
		req.Method, req.Body = http.MethodPost, pr
		go fmt.Fprintln(pw, "0")
		resp, err := base.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 3 {
			if !lines.Scan() || lines.Text() != fmt.Sprint(i) {
				t.Fatalf("line %d is %q, %v", i, lines.Text(), lines.Err())
			}
			fmt.Fprintln(pw, i+1)
		}
		if n := state(t, client, "work").InUse; n != 1 {
			t.Errorf("%d permits are out while the answer streams", n)
		}
		pw.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		eventually(t, "the permit comes back", func() bool { return state(t, client, "work").InUse == 0 })
	})
}

// TestSlowBodyOnTheWire: a client that does not finish is told, and its handler
// does not wait for it.
func TestSlowBodyOnTheWire(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		client := berthtest.New(t).Client()
		h := newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil || !errors.Is(context.Cause(r.Context()), berth.ErrLost) {
				t.Errorf("reading returned %v, the context's cause is %v", err, context.Cause(r.Context()))
			}
			http.Error(w, "too slow", http.StatusRequestTimeout)
		}), patient, berthhttp.MaxHold(3*time.Second))
		srv, base := start(t, h, http2)
		pr, pw := io.Pipe()
		defer pw.Close()
		req := get(t.Context(), t, srv.URL)
		req.Method, req.Body = http.MethodPost, pr
		go fmt.Fprintln(pw, "slow")
		resp, err := base.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusRequestTimeout || string(text) != "too slow\n" {
			t.Errorf("answered %d %q, %v", resp.StatusCode, text, err)
		}
		eventually(t, "the permit comes back", func() bool { return state(t, client, "work").InUse == 0 })
	})
}

// TestClientDisconnects: a real client that hangs up loses its place in line.
func TestClientDisconnects(t *testing.T) {
	eachProtocol(t, func(t *testing.T, http2 bool) {
		client, g := berthtest.New(t).Client(), make(gate)
		var served gauge
		h := newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served.enter()
			g.ServeHTTP(w, r)
		}), berthhttp.MaxWait(time.Hour), berthhttp.MaxHold(time.Hour), patient)
		srv, base := start(t, h, http2)
		first := make(chan error)
		go func() {
			resp, err := base.RoundTrip(get(t.Context(), t, srv.URL))
			if err == nil {
				resp.Body.Close()
			}
			first <- err
		}()
		eventually(t, "the first is served", func() bool { return state(t, client, "work").InUse == 1 })
		ctx, hangUp := context.WithCancel(t.Context())
		second := make(chan error)
		go func() {
			_, err := base.RoundTrip(get(ctx, t, srv.URL))
			second <- err
		}()
		eventually(t, "the second waits", func() bool { return state(t, client, "work").Waiting == 1 })
		hangUp()
		<-second
		eventually(t, "it loses its place", func() bool { return state(t, client, "work").Waiting == 0 })
		close(g)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if _, _, all := served.read(); all != 1 {
			t.Errorf("%d requests were served", all)
		}
	})
}

// TestHandlerOverReplicas: two servers, one limit.
func TestHandlerOverReplicas(t *testing.T) {
	const limit, calls = 2, 40
	var g gauge
	work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		g.enter()
		defer g.leave()
	})
	store := berthtest.New(t)
	var wg sync.WaitGroup
	for range 2 {
		srv, base := start(t, newHandler(t, store.Client(), limit, work, berthhttp.MaxWait(time.Hour), patient), false)
		for range calls / 2 {
			wg.Go(func() {
				resp, err := base.RoundTrip(get(t.Context(), t, srv.URL))
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("answered %d", resp.StatusCode)
				}
			})
		}
	}
	wg.Wait()
	if _, peak, all := g.read(); peak > limit || all != calls {
		t.Errorf("%d calls, %d at once, limit %d", all, peak, limit)
	}
}

// TestBadRequests: what is wrong with a request is the base transport's to say,
// and takes no permit for long.
func TestBadRequests(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := ln.Addr().String()
	ln.Close()
	client := berthtest.New(t).Client()
	tr := newTransport(t, client, 1, berthhttp.Key(nil), patient)
	defer tr.CloseIdleConnections()
	ok := get(t.Context(), t, "http://"+refusing)
	for what, edit := range map[string]func(*http.Request){
		"refused connection": func(*http.Request) {},
		"no URL":             func(r *http.Request) { r.URL = nil },
		"no header":          func(r *http.Request) { r.Header = nil },
		"no host":            func(r *http.Request) { r.URL = &url.URL{Scheme: "http"} },
		"bad scheme":         func(r *http.Request) { r.URL = &url.URL{Scheme: "gopher", Host: refusing} },
		"bad header":         func(r *http.Request) { r.Header = http.Header{"X": {"a\nb"}} },
		"bad method":         func(r *http.Request) { r.Method = "a b" },
	} {
		r := ok.Clone(t.Context())
		edit(r)
		if _, err := tr.RoundTrip(r); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	eventually(t, "all permits come back", func() bool { return state(t, client, "api").InUse == 0 })
}
