package berthweb

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-go/berth"
)

// policy allows only our own files, and forbids frames of the pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler. It checks a request's host and origin before anything
// else.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Referrer-Policy": "same-origin", // with no-referrer, forms would have no origin
	} {
		w.Header().Set(name, value)
	}
	if !s.knownHost(r) {
		s.refuse(w, r, http.StatusMisdirectedRequest, "host", "This is not reached under that name.",
			"Open it by its address, or have the name allowed (berth serve --allow-host).")
		return
	}
	if s.cross.Check(r) != nil {
		s.refuse(w, r, http.StatusForbidden, "origin", "A foreign page sent this. Nothing was changed.", "")
		return
	}
	if r = s.strip(w, r); r == nil {
		return
	}
	switch r.URL.Path {
	case "/healthz":
		s.healthz(w, r)
	case "/readyz":
		s.readyz(w, r)
	default:
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		s.login.ServeHTTP(w, r)
	}
}

// strip returns the request without the base path, or nil if it has answered the request.
func (s *site) strip(w http.ResponseWriter, r *http.Request) *http.Request {
	path, found := strings.CutPrefix(r.URL.Path, s.BasePath)
	switch {
	case found && path == "" && s.BasePath != "":
		w.Header().Set("Location", s.BasePath[strings.LastIndexByte(s.BasePath, '/')+1:]+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return nil
	case !found || !strings.HasPrefix(path, "/"):
		s.refuse(w, r, http.StatusNotFound, "not_found", "There is no such page.", "")
		return nil
	}
	stripped, u := *r, *r.URL
	u.Path, u.RawPath = path, ""
	stripped.URL = &u
	return &stripped
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// validHost refuses a host that no request could be for.
func validHost(host string) error {
	_, name, found := strings.Cut(host, "://")
	if !found {
		name = host
	}
	name, _, _ = strings.Cut(name, "/")
	if h, _, err := net.SplitHostPort(name); err == nil {
		name = h
	}
	_, notAddr := netip.ParseAddr(strings.Trim(name, "[]"))
	switch {
	case host == "*":
		return nil
	case notAddr != nil && !hostName.MatchString(name):
		return &berth.InvalidError{What: "host", Reason: fmt.Sprintf("%q is not a name: write each in full, or * for all", host)}
	case name != host:
		return &berth.InvalidError{What: "host", Reason: fmt.Sprintf("%q is more than a name: write %q", host, name)}
	}
	return nil
}

// knownHost reports whether a request is for one of our names.
func (s *site) knownHost(r *http.Request) bool {
	if slices.Contains(s.Hosts, "*") {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
		return host != ""
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		return false
	}
	// A foreign site's name is not an address, but other addresses are not ours either.
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return addr.IsLoopback() || local != nil && local.AddrPort().Addr().Unmap() == addr.Unmap()
}

// refuse answers a request that is not served, as JSON where that is expected. The texts
// must not contain anything from the request.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, status int, code, text, hint string) {
	if strings.HasPrefix(strings.TrimPrefix(r.URL.Path, s.BasePath), "/api/") {
		s.answer(w, r, status, problem{text, code, hint})
		return
	}
	plain(w, status, strings.TrimSpace(text+" "+hint))
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// badRequest is an error in what was sent, in our own words.
type badRequest struct {
	status     int
	code, text string
	hint       string
}

// Error implements error.
func (e *badRequest) Error() string { return e.text }

// validName refuses a text that cannot be a name before it is used.
func validName(name string) error {
	if name == "" || len(name) > berth.MaxName {
		return &badRequest{http.StatusBadRequest, "name", "The name of a semaphore is missing, or too long.", "Give name: a parameter of the query, or a field of the body."}
	}
	return nil
}
