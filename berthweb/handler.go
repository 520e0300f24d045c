// Package berthweb shows semaphores in a browser, and to programs as JSON: which of them
// are stuck, who holds and who waits. Operators who may can pause, pin and evict there.
//
//	sampler := berthwatch.New(client.Inspector(), berthwatch.Options{})
//	go sampler.Run(ctx)
//	pages, err := berthweb.New(sampler, client.Inspector(), berthweb.Options{})
//	http.Handle("/berth/", http.StripPrefix("/berth", pages))
//
// It is the program's own business who may see the pages: they show names, hosts and
// labels. Nothing can be changed unless Options.User says who may. However many look,
// Redis is asked once, by the sampler; nothing is asked while nobody looks.
//
// All links are relative, so it works below any path. Pages need no script; with it they
// follow what happens every 2 seconds. They keep to a strict Content-Security-Policy.
package berthweb

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
)

const (
	// timeout bounds how long a page waits for a picture, and each call to Redis.
	timeout = 2 * time.Second
	// ready is the same for /readyz.
	ready = time.Second
	// mostBody is how long the body of a request may be.
	mostBody = 4 << 10
)

// Options says who may use the pages, and for what.
type Options struct {
	// User returns who has sent a request, in the words of the audit, and whether they
	// may change anything. nil: nobody may.
	User func(*http.Request) (name string, mayWrite bool)
	// Login wraps what is for those who may look: all but /healthz and /readyz. It comes
	// after the checks of where a request comes from. nil: everybody may look.
	Login func(http.Handler) http.Handler
	// Hosts are the names under which the pages are reached. Others are refused, because
	// they may be a foreign page's that has its name point here (DNS rebinding). localhost
	// and the address of the connection are always taken; "*" takes all.
	Hosts []string
	// Origins are foreign ones, as in "https://ops.example.com", whose pages may send
	// changes too.
	Origins []string
	// BasePath is what the paths of requests begin with, if nobody in front strips it.
	BasePath string
	// RequireReason refuses changes without a reason.
	RequireReason bool
	// Command is what the commands that are shown begin with; "": berth.
	Command string
	// Doctor checks the server, and changes nothing. nil: there is no such page.
	Doctor func(context.Context) ([]Finding, error)
	// Version is of the program.
	Version string
	// Logger gets a line for each change. nil: slog.Default().
	Logger *slog.Logger
}

// Finding is what a check of the server found.
type Finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // OK, WARN or FAIL
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// site is what the pages share.
type site struct {
	Options
	sampler *berthwatch.Sampler
	in      *berth.Inspector
	routes  map[string]route
	cross   *http.CrossOriginProtection
	login   http.Handler // serves what is for those who may look

	audited  cached[[]berth.Audited]
	examined cached[[]Finding]
	server   cached[berth.Server]
}

// route is what a path leads to, by method.
type route map[string]http.HandlerFunc

// New returns the pages and the JSON of what sampler sees. in carries changes out, and
// reads the audit. The program runs the sampler. New fails if an origin is none.
func New(sampler *berthwatch.Sampler, in *berth.Inspector, o Options) (http.Handler, error) {
	s := &site{Options: o, sampler: sampler, in: in, cross: http.NewCrossOriginProtection()}
	s.Command = cmp.Or(o.Command, "berth")
	s.BasePath = strings.TrimRight(o.BasePath, "/")
	if s.User == nil {
		s.User = func(*http.Request) (string, bool) { return "", false }
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	for _, origin := range o.Origins {
		if err := s.cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("berthweb: %w", err)
		}
	}
	s.routes = s.paths()
	s.login = http.HandlerFunc(s.serve)
	if o.Login != nil {
		s.login = o.Login(s.login)
	}
	return s, nil
}

// paths are all that there are. They are matched as they are: nothing is redirected.
func (s *site) paths() map[string]route {
	get := func(f http.HandlerFunc) route { return route{http.MethodGet: f, http.MethodHead: f} }
	all := map[string]route{
		"/": get(s.listPage), "/s": get(s.semaphorePage), "/audit": get(s.auditPage), "/doctor": get(s.doctorPage), "/about": get(s.aboutPage),
		"/act": {http.MethodGet: s.askPage, http.MethodHead: s.askPage, http.MethodPost: s.actPage},

		"/api/v1/semaphores": get(s.listJSON), "/api/v1/semaphore": get(s.semaphoreJSON), "/api/v1/history": get(s.historyJSON),
		"/api/v1/audit": get(s.auditJSON), "/api/v1/doctor": get(s.doctorJSON),
	}
	for verb := range verbs {
		all["/api/v1/"+verb] = route{http.MethodPost: s.actJSON}
	}
	for _, name := range []string{"app.js", "style.css", "icon.svg"} {
		all["/static/"+name] = get(s.asset(name))
	}
	return all
}

// serve serves those who may look.
func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		s.refuse(w, r, http.StatusBadRequest, "query", "The query cannot be read.", "")
		return
	}
	to, found := s.routes[r.URL.Path]
	f := to[r.Method]
	switch {
	case !found:
		s.refuse(w, r, http.StatusNotFound, "not_found", "There is no such page.", "")
	case f == nil:
		w.Header().Set("Allow", to.methods())
		s.refuse(w, r, http.StatusMethodNotAllowed, "method", "This page does not take this method.", "Use "+to.methods()+".")
	default:
		f(w, r)
	}
}

func (t route) methods() string {
	if t[http.MethodGet] == nil {
		return http.MethodPost
	}
	if t[http.MethodPost] != nil {
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// healthz tells that the program works, whatever Redis does.
func (s *site) healthz(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok")
}

// readyz tells whether Redis answers.
func (s *site) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), ready)
	defer cancel()
	if s.in.Ping(ctx) != nil {
		plain(w, http.StatusServiceUnavailable, "redis does not answer")
		return
	}
	plain(w, http.StatusOK, "ok")
}

// look returns what the sampler knows, which it may have to be woken up for; name is of a
// semaphore that is to be known in full, or "".
func (s *site) look(r *http.Request, name string) (berthwatch.View, berthwatch.Detail) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	s.sampler.Wait(ctx, name)
	if name == "" {
		return s.sampler.Look(), berthwatch.Detail{}
	}
	return s.sampler.Look(), s.sampler.Detail(name)
}
