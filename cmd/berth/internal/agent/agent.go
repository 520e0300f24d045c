package agent

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/view"
)

// Options bound what an agent does.
type Options struct {
	Token       string        // that every request must carry; "": none need to
	Connections int           // at once, by default DefaultConnections
	Names       int           // semaphores in use at once, by default DefaultNames
	Drain       time.Duration // how long those who wait or hold can go on when the agent is to end
	Grace       time.Duration // how long holders have to stop after that
	Health      *run.Health   // a hook of the Redis client

	Log func(format string, args ...any) // for whoever runs the agent; nil: nothing is logged
}

// The default bounds.
const (
	DefaultConnections = 16384
	DefaultNames       = 4096
)

// Agent answers requests for permits, and about semaphores, over HTTP.
type Agent struct {
	client  *berth.Client
	options Options
	handler http.Handler
	counts  *counts

	refusing atomic.Pointer[refusing] // Redis refuses requests for permits; nil: as far as is known, it does not

	holds sync.Map // what is held: the *hold by the id of its first lease

	running     context.Context    //nolint:containedctx // ends when the agent is to end
	stop        context.CancelFunc // ends running
	connections sync.WaitGroup     // the goroutines of holds

	mu       sync.Mutex
	names    map[string]int // guarded by mu; how many requests each semaphore in use has
	draining bool           // guarded by mu; no request enters any more
}

// New returns an Agent whose permits are those of client, which remains the caller's.
func New(client *berth.Client, o Options) *Agent {
	o.Connections, o.Names = cmp.Or(o.Connections, DefaultConnections), cmp.Or(o.Names, DefaultNames)
	o.Health = cmp.Or(o.Health, &run.Health{})
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	a := &Agent{client: client, options: o, counts: newCounts(), names: map[string]int{}}
	a.running, a.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/hold", a.take)
	mux.HandleFunc("POST /v1/cooldown", a.cool)
	mux.HandleFunc("POST /v1/settle", a.settleHold)
	mux.HandleFunc("GET /v1/semaphores", a.list)
	mux.HandleFunc("GET /v1/semaphores/{name...}", a.show)
	mux.HandleFunc("GET /healthz", a.health)
	mux.Handle("GET /metrics", a.Metrics())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refusedPath.write(w) })
	mux.HandleFunc("/v1/hold", only("POST"))
	mux.HandleFunc("/v1/cooldown", only("POST"))
	mux.HandleFunc("/v1/settle", only("POST"))
	for _, path := range []string{"/v1/semaphores", "/v1/semaphores/{name...}", "/healthz", "/metrics"} {
		mux.HandleFunc(path, only("GET, HEAD"))
	}
	a.handler = mux
	return a
}

// Metrics serves what Prometheus reads.
func (a *Agent) Metrics() http.Handler { return a.counts.handler() }

// only refuses other methods than these.
func only(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", methods)
		(&refusal{Status: http.StatusMethodNotAllowed, Code: "method", Message: "use " + methods}).write(w)
	}
}

// ServeHTTP implements http.Handler. A hold takes its connection over, and lasts until that
// ends or Stop is called.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if stands(r) {
		w.Header().Set("Connection", "close") // others need its place
		if r.URL.Path != "/healthz" {
			a.counts.refused(refusedCrowd)
			refusedCrowd.write(w)
			return
		}
	}
	if a.options.Token != "" && r.URL.Path != "/healthz" && !a.authorized(r) {
		refusedToken.write(w)
		return
	}
	a.handler.ServeHTTP(w, r)
}

func (a *Agent) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(a.options.Token)) == 1
}

// Stop refuses new requests, ends those that wait, and asks holders to stop. It returns when
// all permits were given back, which takes Options.Grace and the time that Redis needs.
func (a *Agent) Stop() {
	a.mu.Lock()
	a.stop() // under mu: no request enters after it
	a.mu.Unlock()
	a.connections.Wait()
}

// enter admits a request for a semaphore; leave must follow.
func (a *Agent) enter(name string) *refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.draining, a.running.Err() != nil:
		return refusedStopping
	case a.names[name] == 0 && len(a.names) >= a.options.Names:
		return refusedNames
	}
	a.names[name]++
	return nil
}

func (a *Agent) leave(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.names[name]--; a.names[name] == 0 {
		delete(a.names, name)
	}
}

// list answers as "berth ls --json" prints. What is damaged is left out.
func (a *Agent) list(w http.ResponseWriter, r *http.Request) {
	list, _, err := view.List(r.Context(), berthadmin.Of(a.client))
	answer(w, list, err)
}

// show answers as "berth show --json" prints.
func (a *Agent) show(w http.ResponseWriter, r *http.Request) {
	state, err := view.Show(r.Context(), berthadmin.Of(a.client), r.PathValue("name"))
	answer(w, state, err)
}

func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		refusalOf(err).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // it may be gone
}
