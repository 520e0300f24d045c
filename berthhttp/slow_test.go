package berthhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// The tests of this file use the server of net/http on connections within the
// bubble.

// pipes is a net.Listener whose connections are pipes: without buffers, so that
// a client who does not read holds up the server.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// dialServer serves h until the bubble ends and returns what connects to it.
func dialServer(t *testing.T, h http.Handler) func() *peer {
	t.Helper()
	l := pipes{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
		<-time.After(time.Second) // in which the server lingers on connections that it closes
	})
	return func() *peer {
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close() })
		l.conns <- there
		return &peer{Conn: here, in: bufio.NewReader(here)}
	}
}

// peer is a client that sends what and when it likes.
type peer struct {
	net.Conn

	in *bufio.Reader
}

func (p *peer) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		t.Fatal(err)
	}
}

// answer returns the status of the next response and its body.
func (p *peer) answer(t *testing.T) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(p.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const (
	simpleGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	slowPost  = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nslow"
)

// TestSlowBody: it keeps its permit for MaxHold. Then its handler is told, and
// the next in line is served.
func TestSlowBody(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		var failed error
		var held time.Duration
		dial := dialServer(t, newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			if _, err := io.ReadAll(r.Body); err != nil {
				held, failed = time.Since(began), context.Cause(r.Context())
				if _, err := r.Body.Read(make([]byte, 1)); err == nil {
					t.Error("the next Read returned nil")
				}
				http.Error(w, "too slow", http.StatusRequestTimeout)
			}
		}), log.option()))
		slow, honest := dial(), dial()
		slow.send(t, slowPost)
		want(t, client, "work", 1, 0)
		honest.send(t, simpleGet)
		if code, _ := honest.answer(t); code != http.StatusTooManyRequests {
			t.Errorf("the other client was answered %d", code)
		}
		<-time.After(berthhttp.DefaultMaxHold - berthhttp.DefaultMaxWait - time.Second)
		honest.send(t, simpleGet)
		code, body := slow.answer(t)
		if code != http.StatusRequestTimeout || body != "too slow\n" {
			t.Errorf("the slow client was answered %d %q", code, body)
		}
		if code, _ := honest.answer(t); code != http.StatusOK {
			t.Errorf("the other client was answered %d", code)
		}
		var lost *berth.LostError
		if !errors.As(failed, &lost) || lost.Reason != berth.LostMaxHold || held.Round(time.Second) != berthhttp.DefaultMaxHold {
			t.Errorf("reading the body failed with cause %v after %v", failed, held)
		}
		if _, err := slow.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection with half a request on it is open: %v", err)
		}
		if log.Count("lease was lost while its request was served") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}

// TestSlowReader: a response that its client does not read ends a little later.
func TestSlowReader(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		var held time.Duration
		dial := dialServer(t, newHandler(t, store.Client(), 1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					held = time.Since(began)
					return
				}
			}
		}), berthhttp.MaxHold(time.Second)))
		dial().send(t, simpleGet)
		<-time.After(10 * time.Second)
		if held.Round(100*time.Millisecond) != 6*time.Second {
			t.Errorf("the handler was stuck for %v", held)
		}
	})
}

// TestHandlerThatGoesOn: its permit is another's all the same.
func TestHandlerThatGoesOn(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		stuck, g := make(chan struct{}), new(gauge)
		h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			g.enter()
			<-stuck
			g.leave()
		}), berthhttp.MaxHold(time.Second), log.option())
		_, first := serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 0)
		_, second := serve(t, h, get(t.Context(), t, "/"))
		<-time.After(1500 * time.Millisecond)
		want(t, client, "work", 1, 0)
		if now, _, _ := g.read(); now != 2 || log.Count("held for as long as it may be") != 1 {
			t.Errorf("%d are served; log: %s", now, log)
		}
		close(stuck)
		<-first
		<-second
	})
}

// TestLossEndsASwitchedConnection: a handler that waits for its client on a connection that it
// has hijacked does not outlast its lease, although hijacking clears all deadlines.
func TestLossEndsASwitchedConnection(t *testing.T) {
	const upgrade, tunnel = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n"
	read := func(conn net.Conn) error {
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	write := func(conn net.Conn) error {
		_, err := conn.Write([]byte("x"))
		return err
	}
	for name, c := range map[string]struct {
		request string
		late    bool // it hijacks after the loss
		wait    func(net.Conn) error
		held    time.Duration
	}{
		"read":           {upgrade, false, read, time.Second},
		"read tunnel":    {tunnel, false, read, time.Second},
		"write":          {upgrade, false, write, 6 * time.Second},
		"hijacked late":  {upgrade, true, read, 6 * time.Second},
		"late and write": {upgrade, true, write, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				var held time.Duration
				var failed error
				dial := dialServer(t, newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					began := time.Now()
					if c.late {
						<-r.Context().Done()
						<-time.After(time.Second)
					}
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					failed = c.wait(conn)
					held = time.Since(began)
				}), berthhttp.MaxHold(time.Second)))
				p := dial()
				p.send(t, c.request)
				<-time.After(10 * time.Second)
				if held.Round(100*time.Millisecond) != c.held || !errors.Is(failed, os.ErrDeadlineExceeded) {
					t.Errorf("the handler waited for %v and got %v, want %v", held, failed, c.held)
				}
				want(t, client, "work", 0, 0)
			})
		})
	}
}

// TestConnectionAfterALoss: what is done to a request's connection does not harm
// the requests that come after it. One with a body is closed.
func TestConnectionAfterALoss(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		open    bool
	}{
		"no body":                  {"GET /lose HTTP/1.1\r\nHost: x\r\n\r\n", true},
		"read body":                {"POST /lose HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nread", false},
		"left body":                {"POST /leave HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nleft", false},
		"streams":                  {"POST /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nleft", false},
		"upgrade that is not made": {"GET /lose HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				dial := dialServer(t, newHandler(t, store.Client(), 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/":
						fmt.Fprint(w, r.Context().Err())
						return
					case "/lose":
						_, _ = io.Copy(io.Discard, r.Body)
					case "/stream":
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				}), berthhttp.MaxHold(time.Second)))
				p := dial()
				p.send(t, c.request)
				p.answer(t)
				<-time.After(time.Minute) // for deadlines to pass that were left behind
				if !c.open {
					_ = p.SetReadDeadline(time.Now().Add(time.Second))
					if _, err := p.in.ReadByte(); !errors.Is(err, io.EOF) {
						t.Errorf("the connection is open: %v", err)
					}
					return
				}
				p.send(t, simpleGet)
				if code, body := p.answer(t); code != http.StatusOK || body != "<nil>" {
					t.Errorf("the next request was answered %d %s", code, body)
				}
			})
		})
	}
}

// TestHalfARequestIsNotTheNext: a handler that answers while it reads is cut off,
// and what comes later of the body is not taken for a request.
func TestHalfARequestIsNotTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		served := 0
		dial := dialServer(t, newHandler(t, store.Client(), 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			rc := http.NewResponseController(w)
			if err := rc.EnableFullDuplex(); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Length", "2")
			fmt.Fprint(w, "ok")
			_ = rc.Flush()
			_, _ = io.Copy(io.Discard, r.Body)
		}), berthhttp.MaxHold(time.Second)))
		p := dial()
		p.send(t, slowPost)
		p.answer(t)
		<-time.After(2 * time.Second)
		_ = p.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(p, simpleGet)
		if _, err := p.in.ReadByte(); !errors.Is(err, io.EOF) || served != 1 {
			t.Errorf("%d requests were served, reading returned %v", served, err)
		}
	})
}

// TestUnreadSlowBody: the server reads what the handler leaves, before a response
// that does not fit a buffer. That ends too.
func TestUnreadSlowBody(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		var held time.Duration
		dial := dialServer(t, newHandler(t, store.Client(), 1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			_, _ = w.Write(make([]byte, 1<<14))
			held = time.Since(began)
		}), berthhttp.MaxHold(time.Second)))
		p := dial()
		p.send(t, slowPost)
		p.answer(t)
		if held.Round(100*time.Millisecond) != time.Second {
			t.Errorf("the handler was stuck for %v", held)
		}
	})
}
