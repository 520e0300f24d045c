package berthweb

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/words"
)

//go:embed templates static
var files embed.FS

// templates are the pages: each has the block "page", and "live", what changes of it. Programs
// that serve no pages need not wait for them at their start.
var templates = sync.OnceValue(func() map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range []string{"list", "semaphore", "audit", "doctor", "about", "act"} {
		all[name] = template.Must(template.New("layout.html").Funcs(template.FuncMap{
			"clean": words.Clean, "age": age, "left": left, "who": berthwatch.Person, "plural": words.Plural, "help": help, "limit": func(s berthadmin.Summary) string { return berthwatch.Limit(&s) },
			"declared": words.Declared, "toPin": func(s berthadmin.Summary) int { return berthwatch.ToPin(&s) },
		}).ParseFS(files, "templates/layout.html", "templates/"+name+".html"))
	}
	return all
})

func age(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return words.Age(d)
}

func left(d time.Duration, expired bool) string {
	if expired {
		return "expired"
	}
	return age(d)
}

// page is the data that all pages have.
type page struct {
	Title, Here string
	Redis       string // which server it is
	User        string
	Write       bool      // the user may change things
	Doctor      bool      // there is such a page
	At          time.Time // of the data; zero: it has none, or tells its times itself
	Stale       string    // how old it is, and why; "": it is fresh
	Slow        string    // that Redis answers slowly; "": it does not
	Search      *search   // nil: the page cannot be filtered
	Searching   bool
	Note        string // what has been done
	Live        bool   // it updates itself
}

// search is the form that filters what a page shows.
type search struct {
	Action, Text, Hint string
	Keep               map[string]string // the rest of the query
}

// Rest is what of Keep is not empty.
func (f *search) Rest() map[string]string {
	rest := maps.Clone(f.Keep)
	maps.DeleteFunc(rest, func(_, value string) bool { return value == "" })
	return rest
}

// filterIn reads a filter from a query.
func filterIn(q url.Values) (string, error) {
	if len(q.Get("q")) > 256 {
		return "", &badRequest{http.StatusBadRequest, "q", "The filter is longer than 256 bytes.", ""}
	}
	return q.Get("q"), nil
}

func (s *site) page(r *http.Request, title, here string) page {
	p := page{Title: title, Here: here, Redis: s.Redis, Doctor: s.Doctor != nil}
	p.User, p.Write = s.User(r)
	p.Note = verbs[r.URL.Query().Get("done")]
	return p
}

// old reports whether what is known since a moment should have been read again by now.
func old(v *berthwatch.View, at time.Time) bool {
	return !at.IsZero() && time.Since(at) > 3*v.Pace+timeout
}

// Age is how old the data is, in ms.
func (p *page) Age() int64 { return max(time.Since(p.At).Milliseconds(), 0) }

// freshness notes how old the data is, and why.
func (p *page) freshness(v *berthwatch.View, at time.Time, err error) {
	p.At = at
	age := words.Age(time.Since(at))
	switch {
	case err != nil && at.IsZero():
		p.Stale = "Nothing is known yet: " + short(err)
	case err != nil:
		p.Stale = "As of " + age + " ago: " + short(err)
	case old(v, at):
		p.Stale = "As of " + age + " ago"
	}
	p.Live = true
	if v.Trips.Slow() && err == nil {
		p.Slow = v.Trips.Text()
	}
}

// renderLive is render for a page that updates itself. The age of its data travels beside it: it is
// another each time, also where nothing has changed.
func (s *site) renderLive(w http.ResponseWriter, r *http.Request, status int, name string, p *page, data any) {
	if !p.At.IsZero() {
		w.Header().Set("Berth-Age", strconv.FormatInt(p.Age(), 10))
	}
	s.render(w, r, status, name, data)
}

// render answers with a page, or with only its live part.
func (s *site) render(w http.ResponseWriter, r *http.Request, status int, name string, data any) {
	block := "layout.html"
	if r.URL.Query().Get("fragment") == "1" {
		block = "live"
	}
	var b bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&b, block, data); err != nil {
		s.Logger.Error("berthweb: a page could not be made", "page", name, "error", err)
		plain(w, http.StatusInternalServerError, "This page could not be made.")
		return
	}
	w.Header().Set("Berth-Page", "1") // the script shows nothing else in a page's place
	send(w, r, status, "text/html; charset=utf-8", b.Bytes())
}

// send answers with a body, or with 304 if the browser already has it.
func send(w http.ResponseWriter, r *http.Request, status int, kind string, body []byte) {
	h := w.Header()
	if status == http.StatusOK {
		tag := etag(body)
		h.Set("ETag", tag)
		if strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/") == tag { // a proxy that compresses makes it weak
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the browser has gone
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// kinds are the content types of our files. Those that a system registers may be wrong.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

// asset serves one of our files.
func (s *site) asset(name string) http.HandlerFunc {
	body, err := fs.ReadFile(files, "static/"+name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache") // cache, but ask whether it has changed
		send(w, r, http.StatusOK, kinds[path.Ext(name)], body)
	}
}

// auditPage shows who has changed what, for all semaphores or for one.
func (s *site) auditPage(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	p := struct {
		page
		Name    string
		Entries []berthadmin.Audited
		Error   string
	}{page: s.page(r, "Audit", "audit"), Name: name}
	entries, err := s.audit(r, name)
	if err != nil {
		p.Error = short(err)
	}
	p.Entries = entries
	s.render(w, r, statusOf(err), "audit", &p)
}

// audit returns the audit of one semaphore, or of all.
func (s *site) audit(r *http.Request, name string) ([]berthadmin.Audited, error) {
	all, err := s.audited.get(r.Context(), auditFor, mostAsk, s.readAudit)
	if name == "" || err != nil {
		return all, err
	}
	entries := []berthadmin.Audited{}
	for _, e := range all {
		if e.Name == name {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func (s *site) doctorPage(w http.ResponseWriter, r *http.Request) {
	p := struct {
		page
		Findings []Finding
		Error    string
	}{page: s.page(r, "Doctor", "doctor")}
	if s.Doctor == nil {
		s.refuse(w, r, http.StatusNotFound, "not_found", "There is no such page.", "")
		return
	}
	var err error
	if p.Findings, err = s.examined.get(r.Context(), doctorFor, mostExamine, s.Doctor); err != nil {
		p.Error = short(err)
	}
	p.At = s.examined.asOf()
	s.render(w, r, statusOf(err), "doctor", &p)
}

func (s *site) aboutPage(w http.ResponseWriter, r *http.Request) {
	v, _ := s.look(r, "")
	p := struct {
		page
		Version, Command string
		Server           berthadmin.Server
		ServerError      string
		View             berthwatch.View
		Cost             string
		Events           string
	}{page: s.page(r, "About", "about"), Version: s.Version, Command: s.Command, View: v, Events: "listening"}
	p.Cost = strconv.FormatFloat(float64(v.Cost)/float64(time.Millisecond), 'f', 1, 64) + " ms"
	server, err := s.server.get(r.Context(), auditFor, mostAsk, s.in.Server)
	if p.Server = server; err != nil {
		p.ServerError = short(err)
	}
	if !v.Events.Listening {
		p.Events = "not listening"
		if v.Events.Err != nil {
			p.Events += ": " + short(v.Events.Err)
		}
	}
	s.render(w, r, http.StatusOK, "about", &p)
}

// with returns the query of a request with some values changed; "" removes one.
func with(q url.Values, pairs ...string) string {
	changed := maps.Clone(q)
	changed.Del("fragment")
	changed.Del("done")
	for i := 0; i < len(pairs); i += 2 {
		changed.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			changed.Del(pairs[i])
		}
	}
	return "?" + changed.Encode()
}
