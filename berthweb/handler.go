// Package berthweb shows semaphores in a browser, and to programs as JSON: which of them
// are stuck, who holds and who waits. Authorized operators can pause, pin and evict.
//
//	in, err := berthadmin.New(rdb, berthadmin.Options{})
//	sampler := berthwatch.New(in, berthwatch.Options{})
//	go sampler.Run(ctx)
//	pages, err := berthweb.New(sampler, in, berthweb.Options{})
//	http.Handle("/berth/", http.StripPrefix("/berth", pages))
//
// The pages show names, hosts and labels; the program must decide who may see them
// (Options.Login). Nothing can be changed unless Options.User allows it. However many
// browsers look, Redis is asked once, by the sampler, and not at all when nobody looks.
//
// All links are relative, so the pages work below any path. They work without scripts;
// with scripts they update every 2 seconds. They have a strict Content-Security-Policy.
//
// # JSON
//
//	GET api/v1/semaphores?q=&state=&sort=&reverse=1&limit=&cursor=   as berth top --json, with total and next
//	GET api/v1/semaphore?name=&q=&holders=&waiters=                  as berth show --json
//	GET api/v1/history?name=&minutes=                                points, at most an hour
//	GET api/v1/audit?name=&limit=                                    as berth audit --json
//	GET api/v1/doctor                                                the findings of Options.Doctor; 404 without it
//	POST api/v1/VERB         {"name", "limit", "rates", "rated", "for", "id", "force", "reason", "confirm"}
//
// A state is contended, paused, pinned, flapping or damaged; sort is "waiting", "oldest wait", "use",
// "next expiry" or "name"; next is the next cursor. VERB is pause, resume, pin, unpin, resize, evict or
// purge, with the fields that it needs: "for" ends a pause, as in "10m"; pin and resize have a limit or
// rates, as in "60/1m tokens=none", and rated unpins those; confirm repeats the name, for purge and force.
//
// Answers have an ETag; with If-None-Match an unchanged one is 304. Errors are {"error", "code", "hint"}:
//
//	400, 408, 413, 415   the request is wrong; its body is late, too long, not JSON
//	401, 429             log in first; too many wrong passwords (both in plain text)
//	403                  only looking is allowed, or a foreign page sent the request
//	404                  not in use
//	405                  another method
//	409                  the rates are pinned; or damaged, or written by a newer berth ("newer": upgrade this one, and keep its keys)
//	421                  a foreign host name
//	503                  Redis does not answer or refuses, or the data has not been read yet ("not_yet")
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
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

const (
	// timeout bounds how long a page waits for a sample, and each call to Redis.
	timeout = 2 * time.Second
	// ready is the bound for /readyz.
	ready = time.Second
	// mostBody is how long the body of a request may be.
	mostBody = 8 << 10
)

// Options configures the pages. All fields are optional.
type Options struct {
	// User returns the sender of a request, as the audit names them, and whether they may
	// make changes. The name of somebody who may is 1 to 128 bytes of printable text. nil:
	// nobody may make changes.
	User func(*http.Request) (name string, mayWrite bool)
	// Login wraps the handler of everything but /healthz and /readyz, to check who may
	// look. It is called after the checks of the request's host and origin. nil: everybody
	// may look.
	Login func(http.Handler) http.Handler
	// Hosts are the host names of the pages, without a port. Requests for other names are refused, because
	// a foreign site could make its name resolve to this server (DNS rebinding). localhost
	// and the address of the connection are always accepted; "*" accepts all.
	Hosts []string
	// Origins are other origins, as in "https://ops.example.com", whose pages may also send
	// changes.
	Origins []string
	// BasePath is the prefix of the paths of requests, as in "/berth", if no proxy or handler
	// strips it.
	BasePath string
	// Group has patterns such as "api/*", for names with keys in them: the list shows the
	// semaphores that match one as a row with their totals, until asked for each of them.
	Group []string
	// RequireReason refuses changes without a reason.
	RequireReason bool
	// Redis names the server, and the prefix if there are several, for people: it stands in the
	// header and the title of each page. It must hold no password. "" shows none.
	Redis string
	// Command is the beginning of the commands that are shown; "" is "berth".
	Command string
	// Doctor checks the server without changing anything. nil: there is no doctor page.
	Doctor func(context.Context) ([]Finding, error)
	// Version is the version of the program.
	Version string
	// Logger gets a line for each change. nil is slog.Default().
	Logger *slog.Logger
}

// Finding is the result of one check of the server.
type Finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // OK, WARN or FAIL
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// site is the state that the pages share.
type site struct {
	Options
	sampler *berthwatch.Sampler
	in      *berthadmin.Inspector
	routes  map[string]route
	cross   *http.CrossOriginProtection
	login   http.Handler // serve, behind Options.Login

	audited  cached[[]berthadmin.Audited]
	examined cached[[]Finding]
	server   cached[berthadmin.Server]
}

// route has the handlers of a path, by method.
type route map[string]http.HandlerFunc

// New returns a handler for the pages and the JSON of what sampler sees. in makes the
// changes and reads the audit. The caller must run the sampler. New fails if Options.Hosts,
// Origins or BasePath are malformed.
func New(sampler *berthwatch.Sampler, in *berthadmin.Inspector, o Options) (http.Handler, error) {
	s := &site{Options: o, sampler: sampler, in: in, cross: http.NewCrossOriginProtection()}
	s.Command = cmp.Or(o.Command, "berth")
	s.BasePath = strings.TrimRight(o.BasePath, "/")
	if s.BasePath != "" && s.BasePath[0] != '/' {
		return nil, &berth.InvalidError{What: "base path", Reason: fmt.Sprintf("%q does not begin with /: write %q", o.BasePath, "/"+s.BasePath)}
	}
	s.Hosts = nil
	for _, host := range o.Hosts {
		if err := validHost(host); err != nil {
			return nil, err
		}
		s.Hosts = append(s.Hosts, strings.Trim(strings.TrimSuffix(host, "."), "[]")) // as requests are compared
	}
	if err := berthwatch.Groups(o.Group).Check(); err != nil {
		return nil, err
	}
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

// paths are all paths. They are matched exactly, without redirects.
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

// serve serves requests that Login has let through.
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

// healthz answers as long as the program runs, whatever Redis does.
func (s *site) healthz(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok")
}

// readyz tells whether Redis answers, and not with a refusal.
func (s *site) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), ready)
	defer cancel()
	if s.in.Ping(ctx) != nil {
		plain(w, http.StatusServiceUnavailable, "redis does not answer, or refuses")
		return
	}
	plain(w, http.StatusOK, "ok")
}

// look returns what the sampler knows, and waits for it to wake up if necessary. name is a
// semaphore to be read in full, or "".
func (s *site) look(r *http.Request, name string) (berthwatch.View, berthwatch.Detail) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	s.sampler.Wait(ctx, name)
	if name == "" {
		return s.sampler.Look(), berthwatch.Detail{}
	}
	return s.sampler.Look(), s.sampler.Detail(name)
}
