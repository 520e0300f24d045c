package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
)

const (
	mostHeader = 64 << 10
	// mostConnections is how many connections an address may have.
	mostConnections = 100
	// shutdown is how long requests have to end.
	shutdown = 5 * time.Second
)

// Serve serves the pages until ctx ends, and calls ready with their URL. It fails if Check
// refuses cfg.
func Serve(ctx context.Context, cfg Config, sampler *berthwatch.Sampler, in *berthadmin.Inspector, o berthweb.Options, ready func(url string)) error {
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
	scheme, srv := "http", l.server(pages, o.Logger)
	if cfg.Cert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		scheme, srv.TLSConfig = "https", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	all := []served{{srv, listener}}
	ready(scheme + "://" + listener.Addr().String() + strings.TrimSuffix(cfg.BasePath, "/") + "/")
	if cfg.MetricsListen != "" {
		metrics, err := config.Listen(ctx, "tcp", cfg.MetricsListen)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", cfg.Metrics)
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
		all = append(all, served{l.server(mux, o.Logger), metrics})
		ready("http://" + metrics.Addr().String() + "/metrics")
	}
	return runAll(ctx, all)
}

func (l *login) server(h http.Handler, log *slog.Logger) *http.Server {
	connections := &fair{exempt: l.trusts, open: map[netip.Addr]int{}}
	return &http.Server{
		Handler: h, MaxHeaderBytes: mostHeader, ConnState: connections.count, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		WriteTimeout: 30 * time.Second, // a check of the server takes long
	}
}

// served is a server on its listener.
type served struct {
	*http.Server
	listener net.Listener
}

// runAll serves until ctx ends or one of them fails, and lets requests end then.
func runAll(ctx context.Context, all []served) error {
	failed := make(chan error, len(all))
	for _, s := range all {
		go func() {
			if s.TLSConfig != nil {
				failed <- s.ServeTLS(s.listener, "", "")
			} else {
				failed <- s.Serve(s.listener)
			}
		}()
	}
	var errs []error
	select {
	case err := <-failed:
		errs = append(errs, err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	for _, s := range all {
		err := s.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = s.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// fair gives each address a part of a server's connections.
type fair struct {
	exempt func(netip.Addr) bool // a proxy has those of all its users

	mu   sync.Mutex
	open map[netip.Addr]int
}

// count is called when a connection changes its state, and closes a new one that is too many.
func (f *fair) count(conn net.Conn, state http.ConnState) {
	addr := remote(conn.RemoteAddr().String())
	if f.exempt(addr) {
		return
	}
	from := site(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch state {
	case http.StateNew:
		if f.open[from]++; f.open[from] > mostConnections {
			conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		if f.open[from]--; f.open[from] == 0 {
			delete(f.open, from)
		}
	}
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
