package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) {
	if role, config := child.Role(); role != "" {
		if err := runAgent(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

// agentConfig is what an agent in a process of its own gets.
type agentConfig struct{ Path, Token, Network, Addr, Prefix string }

// startAgent starts one, which is killed with the test, and returns where it listens.
func startAgent(t testing.TB, c agentConfig) (p *child.Process, listens string) {
	t.Helper()
	p, err := child.Again("agent", c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.Hear(context.Background(), &listens); err != nil {
		t.Fatal(err)
	}
	return p, listens
}

// runAgent is what that process does.
func runAgent(config []byte) error {
	var c agentConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what it warns of is meant
	rdb := redis.NewClient(&redis.Options{Network: c.Network, Addr: c.Addr})
	defer rdb.Close()
	client, err := berth.New(rdb, berth.Prefix(c.Prefix))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := child.Until(context.Background(), os.Stdin)
	defer stop()
	l, err := listenAt(ctx, c.Path)
	if err != nil {
		return err
	}
	fmt.Printf("%q\n", l.Addr())
	return New(client, Options{Token: c.Token, Grace: time.Second}).Serve(ctx, l)
}

func listenAt(ctx context.Context, where string) (net.Listener, error) {
	if IsAddress(where) {
		return new(net.ListenConfig).Listen(ctx, "tcp", where)
	}
	return Listen(ctx, where)
}

// world is an agent with a Redis, and programs that use it: over pipes in a bubble, and over a
// unix socket beside a real server.
type world struct {
	*testenv.Env
	peer  *testenv.Peer
	agent *Agent
	path  string // of its socket, if it has one
	dial  func() (net.Conn, error)
	stop  func() // the agent, once
}

func each(t *testing.T, body func(w *world)) {
	t.Helper()
	testenv.Each(t, func(e *testenv.Env) { body(newWorld(e, Options{Grace: 10 * time.Second})) })
}

func newWorld(e *testenv.Env, o Options) *world {
	e.Helper()
	return newWorldOn(e, o, func(l net.Listener) net.Listener { return l })
}

// newWorldOn is newWorld with a listener that on makes of the socket's.
func newWorldOn(e *testenv.Env, o Options, on func(net.Listener) net.Listener) *world {
	e.Helper()
	w := &world{Env: e, peer: e.Peer()}
	o.Health = &run.Health{}
	w.peer.Redis.AddHook(o.Health)
	w.agent = New(w.peer.Client, o)
	var l net.Listener
	if e.Exact {
		pipes := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		l, w.dial = pipes, pipes.dial
	} else {
		l, w.dial = w.socket()
		l = on(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.agent.Serve(ctx, l) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := testenv.Receive(w, "end of the agent", ended); err != nil {
			w.Errorf("the agent ended with %v", err)
		}
	})
	e.Cleanup(w.stop)
	return w
}

// socket is a real one.
func (w *world) socket() (net.Listener, func() (net.Conn, error)) {
	dir, err := os.MkdirTemp("", "berth") // t.TempDir can be too long for a socket
	w.Must(err)
	w.Cleanup(func() { os.RemoveAll(dir) })
	w.path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", w.path)
	w.Must(err)
	return l, func() (net.Conn, error) { return net.Dial("unix", w.path) }
}

// narrow is a listener whose connections have room for a few lines that nobody reads.
type narrow struct{ net.Listener }

// Accept implements net.Listener.
func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if socket, ok := conn.(*net.UnixConn); ok {
		err = socket.SetWriteBuffer(1) // the least that there is
	}
	return conn, err
}

// pipes is a listener without sockets.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial() (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// event is any line, or a refusal.
type event struct {
	Event     string            `json:"event"`
	Status    int               `json:"status"`
	Error     string            `json:"error"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Fields    map[string]string `json:"fields"`
	Ahead     int               `json:"ahead"`
	Slot      int               `json:"slot"`
	Token     int64             `json:"token"`
	Limit     int               `json:"limit"`
	UntilBoot int64             `json:"until_boot_ms"`
	Remaining int64             `json:"remaining_ms"`
	Retry     int64             `json:"retry_after_ms"`
	Name      string            `json:"name"`
	InUse     int               `json:"in_use"`
	Waiting   int               `json:"waiting"`
	Paused    bool              `json:"paused"`
	Tenant    string            `json:"tenant"`
	All       []grant           `json:"all"`
	Rate      *spentRate        `json:"rate"`
	ID        string            `json:"id"`
	header    http.Header
}

// program is a client of the agent. It reads all that it is sent.
type program struct {
	w      *world
	conn   net.Conn
	events chan event // closed when the connection has ended
}

// connect dials, and sends text, for as long as the agent reads it.
func (w *world) connect(text string) net.Conn {
	w.Helper()
	conn, err := w.dial()
	w.Must(err)
	w.Cleanup(func() { conn.Close() })
	go func() { _, _ = io.WriteString(conn, text) }()
	return conn
}

// keptAlive makes a request, and returns what makes others on the same connection, and returns the
// status of the answer.
func (w *world) keptAlive() func(method, path, body string) (status int) {
	w.Helper()
	conn, err := w.dial()
	w.Must(err)
	w.Cleanup(func() { conn.Close() })
	in := bufio.NewReader(conn)
	ask := func(method, path, body string) int {
		w.Helper()
		_, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
		w.Must(err)
		answer, err := http.ReadResponse(in, nil)
		w.Must(err)
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		w.Must(err)
		return answer.StatusCode
	}
	ask("GET", "/metrics", "")
	return ask
}

// untilNobodyListens waits until the agent accepts no connections.
func (w *world) untilNobodyListens() {
	w.Helper()
	for {
		conn, err := w.dial()
		if err != nil {
			return
		}
		conn.Close()
		w.Pass(w.Tick())
	}
}

// post is a request for a permit with a body.
func post(body string) string {
	return fmt.Sprintf("POST /v1/hold HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// asks is a request for a permit of the tests' semaphore, with more fields.
func asks(limit int, fields ...string) string {
	all := append([]string{fmt.Sprintf(`"name":%q,"limit":%d`, testenv.Name, limit)}, fields...)
	return post("{" + strings.Join(all, ",") + "}")
}

// ask sends such a request.
func (w *world) ask(limit int, fields ...string) *program {
	w.Helper()
	return w.send(asks(limit, fields...))
}

// send sends any request.
func (w *world) send(text string) *program {
	w.Helper()
	p := &program{w: w, conn: w.connect(text), events: make(chan event, 10000)}
	go p.read()
	return p
}

func (p *program) read() {
	defer close(p.events)
	in := bufio.NewReader(p.conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	lines := json.NewDecoder(answer.Body)
	for {
		e := event{Status: answer.StatusCode, header: answer.Header}
		if lines.Decode(&e) != nil {
			_, _ = io.Copy(io.Discard, in) // the end of the body may not be that of the connection
			return
		}
		if answer.StatusCode != http.StatusOK {
			e.Event = "refused"
		}
		p.events <- e
	}
}

// next returns the next line; its event is "" when the connection has ended.
func (p *program) next() event {
	p.w.Helper()
	return testenv.Receive(p.w, "line", p.events)
}

// until waits for a line with one of these events. It returns another one instead that tells
// neither of the place nor of a renewal.
func (p *program) until(names ...string) event {
	p.w.Helper()
	for {
		if e := p.next(); slices.Contains(names, e.Event) || e.Event != "queued" && e.Event != "renewed" {
			return e
		}
	}
}

// wants waits for a line with an event, after any that tell of the place or of renewals.
func (p *program) wants(name string) event {
	p.w.Helper()
	e := p.until(name)
	if e.Event != name {
		p.w.Fatalf("got the line %+v, want %q", e, name)
	}
	return e
}

// late reports whether an event only tells that a real machine is too slow: to answer a request
// in time, or for the time of a lease. A bubble is not.
func (w *world) late(e event) bool {
	return !w.Exact && (e.Error == "redis" || e.Error == "incomplete" || e.Event == "" || e.Reason == "untrusted" || e.Reason == "expired")
}

// slow reports whether a real machine took longer for something than it should.
func (w *world) slow(since time.Time, most time.Duration) bool {
	return !w.Exact && time.Since(since) >= most
}

// inTime lets something happen that takes less time than a slow machine may have for it: then
// it returns late, and is begun again.
func (w *world) inTime(story func() (late bool)) {
	w.Helper()
	for range 20 {
		if !story() || w.Exact || w.Failed() {
			return
		}
	}
	w.Error("the machine was too slow for it, twenty times")
}

// holds asks for a permit, and waits for it.
func (w *world) holds(limit int, fields ...string) *program {
	w.Helper()
	return w.insists(asks(limit, fields...), "granted")
}

// waits asks for a permit, and returns once it stands in the queue.
func (w *world) waits(limit int, fields ...string) *program {
	w.Helper()
	return w.insists(asks(limit, fields...), "queued")
}

// insists sends a request until it gets a line with one of these events: a busy machine may be
// too slow for the time that a request has to come, or that Redis has to answer.
func (w *world) insists(text string, names ...string) *program {
	w.Helper()
	for {
		p := w.send(text)
		e := p.until(names...)
		if slices.Contains(names, e.Event) {
			return p
		} else if !w.late(e) {
			w.Errorf("got the line %+v, want one of %q", e, names)
			return p
		}
		p.conn.Close()
	}
}

// refused sends a request until it is refused, and not because the machine is busy.
func (w *world) refused(text string) event {
	w.Helper()
	for {
		if e := w.send(text).next(); !w.late(e) {
			return e
		}
	}
}

// lease is what Redis knows of the only holder.
func (w *world) lease() berthadmin.Holder {
	w.Helper()
	st := w.Show()
	if len(st.Leases) != 1 {
		w.Fatalf("there are %d leases, want 1", len(st.Leases))
	}
	return st.Leases[0]
}

// untilHeld waits until so many permits are out.
func (w *world) untilHeld(n int) {
	w.Helper()
	w.Until(fmt.Sprintf("%d holders", n), func(s *berthadmin.State) bool { return len(s.Leases) == n })
}

// count is the value of one of the agent's metrics.
func (w *world) count(metric string) (value float64) {
	w.Helper()
	answer := httptest.NewRecorder()
	w.agent.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if rest, ok := strings.CutPrefix(line, metric+" "); ok {
			_, err := fmt.Sscan(rest, &value)
			w.Must(err)
		}
	}
	return value
}
