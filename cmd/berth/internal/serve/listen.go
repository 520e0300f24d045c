package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
)

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second // a check of the server takes long
	idleTimeout   = time.Minute
	mostHeader    = 64 << 10
	// mostConnections is how many connections an address may have.
	mostConnections = 100
	// shutdown is how long requests have to end.
	shutdown = 5 * time.Second
)

// Serve serves the pages until ctx ends, and calls ready with their URL. It fails if Check
// refuses cfg.
func Serve(ctx context.Context, cfg Config, sampler *berthwatch.Sampler, in *berth.Inspector, o berthweb.Options, ready func(url string)) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	l, err := newLogin(cfg)
	if err != nil {
		return err
	}
	o.User, o.Login, o.BasePath = l.User, l.wrap, cfg.BasePath
	pages, err := berthweb.New(sampler, in, o)
	if err != nil {
		return err
	}
	if cfg.AccessLog {
		pages = logged(pages, l, o.Logger)
	}
	scheme, srv := "http", newServer(pages, o.Logger)
	if cfg.Cert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		scheme, srv.TLSConfig = "https", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	listener, err := l.listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	all := []served{{srv, listener}}
	ready(scheme + "://" + listener.Addr().String() + strings.TrimSuffix(cfg.BasePath, "/") + "/")
	if cfg.MetricsListen != "" {
		listener, err := l.listen(ctx, cfg.MetricsListen)
		if err != nil {
			return errors.Join(err, all[0].listener.Close())
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", cfg.Metrics)
		all = append(all, served{newServer(mux, o.Logger), listener})
		ready("http://" + listener.Addr().String() + "/metrics")
	}
	return runAll(ctx, all)
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: mostHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

func (l *login) listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &fair{Listener: listener, exempt: l.trusts, open: map[netip.Addr]int{}}, nil
}

// served is a server on its listener.
type served struct {
	*http.Server
	listener net.Listener
}

// runAll serves until ctx ends or one of them fails.
func runAll(ctx context.Context, all []served) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(all))
	for _, s := range all {
		go func() {
			defer stop()
			ended <- s.run(ctx)
		}()
	}
	var errs []error
	for range all {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

// run serves until ctx ends, and lets requests end then.
func (s served) run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			failed <- s.ServeTLS(s.listener, "", "")
		} else {
			failed <- s.Serve(s.listener)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	err := s.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.Close()
	}
	<-failed //nolint:errcheck // it says that it was closed
	return err
}

// fair gives each address a part of the connections.
type fair struct {
	net.Listener
	exempt func(netip.Addr) bool // a proxy has those of all its users

	mu   sync.Mutex
	open map[netip.Addr]int
}

// Accept implements net.Listener.
func (f *fair) Accept() (net.Conn, error) {
	for {
		conn, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, _ := conn.RemoteAddr().(*net.TCPAddr)
		if tcp == nil {
			return conn, nil
		}
		addr := tcp.AddrPort().Addr().Unmap()
		if f.exempt(addr) {
			return conn, nil
		}
		from := site(addr)
		if f.enter(from) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { f.leave(from) })}, nil
		}
		conn.Close()
	}
}

func (f *fair) enter(addr netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[addr] >= mostConnections {
		return false
	}
	f.open[addr]++
	return true
}

func (f *fair) leave(addr netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[addr]--; f.open[addr] == 0 {
		delete(f.open, addr)
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// logged logs each request, without its headers and query.
func logged(next http.Handler, l *login, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		seen := &seen{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(seen, r)
		log.Info("berth: request", "address", l.address(r).String(), "method", r.Method, "path", r.URL.Path, "status", seen.status,
			"took", time.Since(begun).Round(time.Microsecond))
	})
}

// seen records the status of an answer.
type seen struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (s *seen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
