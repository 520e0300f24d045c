package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// serving starts a server, and returns where it is.
func serving(e *testenv.Env, cfg Config) (at *url.URL, said *testenv.Buffer) {
	e.Helper()
	all, said := servingAll(e, cfg, 1)
	return all[0], said
}

// servingAll starts a server that is in n places.
func servingAll(e *testenv.Env, cfg Config, n int) (at []*url.URL, said *testenv.Buffer) {
	e.Helper()
	cfg.Listen, said = "127.0.0.1:0", &testenv.Buffer{}
	sampler := berthwatch.New(e.Inspector.Inspector, berthwatch.Options{})
	ctx, stop := context.WithCancel(e.Ctx)
	ready, ended := make(chan string, n), make(chan error, 1)
	go sampler.Run(ctx)
	go func() {
		ended <- Serve(ctx, cfg, sampler, e.Inspector.Inspector, berthweb.Options{Logger: slog.New(slog.NewTextHandler(said, nil))}, func(url string) { ready <- url })
	}()
	e.Cleanup(func() {
		stop()
		e.Must(testenv.Receive(e, "end", ended))
	})
	for range n {
		select {
		case text := <-ready:
			u, err := url.Parse(text)
			e.Must(err)
			at = append(at, u)
		case err := <-ended:
			e.Fatalf("it does not serve: %v", err)
		}
	}
	return at, said
}

// certificate makes one for this machine.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return secretFile(t, string(public)), secretFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))), pool
}

// TestServesUsersOverTLS: a user sees the pages and acts; the log has what was done, and no
// password.
func TestServesUsersOverTLS(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	e.Hold(e.Peer().Named("api", 3))
	cert, key, pool := certificate(t)
	at, said := serving(e, Config{
		AuthFile: secretFile(t, cheap(t, "ann", "hunter2", "operate")), Cert: cert, Key: key, AllowWrite: true, AccessLog: true, BasePath: "/ops",
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	defer transport.CloseIdleConnections()
	get := func(user, path string) (int, string) {
		r, err := http.NewRequestWithContext(e.Ctx, http.MethodGet, at.String()+path, http.NoBody)
		e.Must(err)
		if user != "" {
			r.SetBasicAuth(user, "hunter2")
		}
		resp, err := client.Do(r)
		for err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR") && e.Ctx.Err() == nil {
			resp, err = client.Do(r) // the machine was too busy for an answer in the time that the server gives one
		}
		e.Must(err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		e.Must(err)
		return resp.StatusCode, string(text)
	}
	for path, want := range map[string]int{"": 401, "s?name=api": 401, "api/v1/semaphores": 401, "static/app.js": 401, "healthz": 200, "readyz": 200} {
		status, _ := get("", path)
		for status == http.StatusServiceUnavailable && e.Ctx.Err() == nil { // the machine is too busy for Redis
			status, _ = get("", path)
		}
		if status != want {
			t.Errorf("a stranger gets %s: status %d", path, status)
		}
	}
	if status, text := get("ann", "s?name=api&password=hunter2"); status != http.StatusOK || !strings.Contains(text, "ann@127.0.0.1 · can edit") {
		t.Errorf("ann gets %d %s", status, text)
	}
	r, err := http.NewRequestWithContext(e.Ctx, http.MethodPost, at.String()+"api/v1/pause", strings.NewReader(`{"name":"api","reason":"why not"}`))
	e.Must(err)
	r.SetBasicAuth("ann", "hunter2")
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	e.Must(err)
	resp.Body.Close()
	for entry, err := range e.Inspector.Audit(e.Ctx) {
		if e.Must(err); entry.Who != "ann@127.0.0.1" || entry.Why != "why not" {
			t.Errorf("audit %+v", entry)
		}
	}
	if text := said.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "Basic") || !strings.Contains(text, "path=/ops/s ") || !strings.Contains(text, `why="why not"`) {
		t.Errorf("it has logged: %s", text)
	}
}

// TestConnectionsOfAnAddressAreBounded: what is above is closed at once, and a closed one makes
// room.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	at, _ := serving(e, Config{})
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(e.Ctx, "tcp", at.Host)
		e.Must(err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	// alive asks for something: a connection that was refused has no answer.
	alive := func(conn net.Conn) bool {
		fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		n, _ := conn.Read(make([]byte, 1000))
		return n > 0
	}
	var open []net.Conn
	for range mostConnections {
		conn := dial()
		if !alive(conn) {
			t.Fatalf("connection %d is refused", len(open))
		}
		open = append(open, conn)
	}
	if alive(dial()) {
		t.Error("there is no bound")
	}
	open[0].Close()
	for !alive(dial()) {
		select {
		case <-time.After(e.Tick()):
		case <-e.Ctx.Done():
			t.Fatal("a closed connection makes no room")
		}
	}
}

// TestMetricsAreBesideThePages: on a port of their own, without a login, and nothing else is
// there.
func TestMetricsAreBesideThePages(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	cfg := Config{
		MetricsListen: "127.0.0.1:0", Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "berth_up 1") }),
		AuthFile: secretFile(t, cheap(t, "ann", "hunter2", "view")), BehindTLSProxy: true,
	}
	at, _ := servingAll(e, cfg, 2)
	for _, c := range []struct {
		url    string
		status int
	}{
		{at[1].String(), 200},
		{at[1].ResolveReference(&url.URL{Path: "/healthz"}).String(), 200},
		{at[1].String() + "/", 404},
		{at[1].ResolveReference(&url.URL{Path: "/"}).String(), 404},
		{at[0].String() + "metrics", 401},
		{at[0].String(), 401},
	} {
		resp, err := http.Get(c.url)
		e.Must(err)
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.url, resp.StatusCode, c.status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestLargeHeadersAreRefused.
func TestLargeHeadersAreRefused(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	at, _ := serving(e, Config{})
	r, err := http.NewRequestWithContext(e.Ctx, http.MethodGet, at.String(), http.NoBody)
	e.Must(err)
	r.Header.Set("X-Large", strings.Repeat("x", mostHeader+8<<10))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	e.Must(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}
