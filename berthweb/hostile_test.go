package berthweb_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// attempt is a request, and what comes of it.
type attempt struct {
	what   string
	method string
	target string
	body   string
	set    string // headers, "Name: value", with | between
	want   int
}

const (
	form = "Content-Type: application/x-www-form-urlencoded"
	typ  = "Content-Type: application/json"
	big  = 9000
)

var attempts = []attempt{
	{"an address of this machine", "GET", "/about", "", "Host: 127.0.0.1:7357", 200},
	{"the other one", "GET", "/about", "", "Host: [::1]:7357", 200},
	{"localhost", "GET", "/about", "", "Host: LocalHost.", 200},
	{"a name that is allowed", "GET", "/about", "", "Host: OPS.example:443", 200},
	{"the address of the connection", "GET", "/about", "", "Host: 192.0.2.7:7357", 200},
	{"a foreign name", "GET", "/", "", "Host: evil.example", 421},
	{"a foreign name, for the health", "GET", "/healthz", "", "Host: evil.example", 421},
	{"a foreign name, for JSON", "GET", "/api/v1/semaphores", "", "Host: evil.example:7357", 421},
	{"a foreign name that ends in ours", "GET", "/", "", "Host: evil-localhost", 421},
	{"a foreign name that begins with ours", "GET", "/", "", "Host: localhost.evil.example", 421},
	{"a foreign name that begins with an address", "GET", "/", "", "Host: 127.0.0.1.evil.example", 421},
	{"a foreign address", "GET", "/", "", "Host: 203.0.113.9", 421},
	{"all addresses", "GET", "/", "", "Host: 0.0.0.0:7357", 421},
	{"no host", "GET", "/", "", "Host: ", 421},
	{"a host that is none", "GET", "/", "", "Host: [", 421},
	{"a forwarded host is no host", "GET", "/", "", "Host: evil.example|X-Forwarded-Host: localhost", 421},

	{"a form of a foreign page", "POST", "/act", "verb=pause&name=api&answer=yes", form + "|Sec-Fetch-Site: cross-site", 403},
	{"a form of a neighbour", "POST", "/act", "verb=pause&name=api&answer=yes", form + "|Sec-Fetch-Site: same-site", 403},
	{"a form of an old browser", "POST", "/act", "verb=pause&name=api&answer=yes", form + "|Origin: https://evil.example", 403},
	{"a form of a page without an origin", "POST", "/act", "verb=pause&name=api&answer=yes", form + "|Origin: null", 403},
	{"a form of another port", "POST", "/act", "verb=pause&name=api&answer=yes", form + "|Origin: http://localhost:8080", 403},
	{"JSON of a foreign page", "POST", "/api/v1/pause", `{"name":"api"}`, typ + "|Sec-Fetch-Site: cross-site", 403},
	{"a purge of a foreign page", "POST", "/api/v1/purge", `{"name":"api","confirm":"api"}`, typ + "|Origin: https://evil.example", 403},
	{"a link of a foreign page", "GET", "/", "", "Sec-Fetch-Site: cross-site", 200},
	{"a change by a link", "GET", "/api/v1/pause?name=api", "", "", 405},
	{"a change by a link, of a foreign page", "GET", "/act?verb=pause&name=api&answer=yes", "", "Sec-Fetch-Site: cross-site", 200},
	{"a preflight", "OPTIONS", "/api/v1/pause", "", "Origin: https://evil.example|Access-Control-Request-Method: POST", 405},

	{"another method", "DELETE", "/s?name=api", "", "", 405},
	{"a method that is none", "BREW", "/", "", "", 405},
	{"a trace", "TRACE", "/", "", "", 405},
	{"a form to a page", "POST", "/", "", form, 405},
	{"JSON to where it is read", "POST", "/api/v1/semaphores", "{}", typ, 405},
	{"a head", "HEAD", "/", "", "", 200},

	{"no such page", "GET", "/nosuch", "", "", 404},
	{"a page below a page", "GET", "/s/api", "", "", 404},
	{"upwards", "GET", "/static/../guard.go", "", "", 404},
	{"upwards, in disguise", "GET", "/static/%2e%2e/handler.go", "", "", 404},
	{"a template", "GET", "/templates/list.html", "", "", 404},
	{"two slashes", "GET", "//evil.example/", "", "", 404},
	{"health with more", "GET", "/healthz/", "", "", 404},
	{"health as a part", "GET", "/x/healthz", "", "", 404},
	{"health in disguise", "GET", "/%68ealthz", "", "", 200},
	{"a verb that is none", "POST", "/api/v1/explode", "{}", typ, 404},

	{"a query that is none", "GET", "/?q=%zz", "", "", 400},
	{"a query with a semicolon", "GET", "/?a;b", "", "", 400},
	{"no name", "GET", "/s", "", "", 400},
	{"a long name", "GET", "/s?name=" + strings.Repeat("x", 513), "", "", 400},
	{"a name with braces", "GET", "/s?name=%7Bx%7D", "", "", 400},
	{"a name with a control character", "GET", "/api/v1/semaphore?name=a%00b", "", "", 400},
	{"a name that is not UTF-8", "GET", "/s?name=%ff", "", "", 400},
	{"a name that nobody uses", "GET", "/s?name=none", "", "", 404},
	{"the same as JSON", "GET", "/api/v1/semaphore?name=none", "", "", 404},
	{"a number that is none", "GET", "/?cursor=many", "", "", 400},
	{"a number below 0", "GET", "/?cursor=-1", "", "", 400},
	{"a number above all", "GET", "/?cursor=99999999999999999999", "", "", 400},
	{"a page behind the last", "GET", "/?cursor=1000000", "", "", 200},
	{"very many rows", "GET", "/api/v1/semaphores?limit=100000", "", "", 400},
	{"no rows", "GET", "/api/v1/semaphores?limit=0", "", "", 400},
	{"very many holders", "GET", "/api/v1/semaphore?name=api&holders=1e9", "", "", 400},
	{"a long time", "GET", "/api/v1/history?name=api&minutes=525600", "", "", 400},
	{"a state that is none", "GET", "/?state=%3Cscript%3E", "", "", 400},
	{"an order that is none", "GET", "/?sort=shoe+size", "", "", 400},
	{"a long filter", "GET", "/?q=" + strings.Repeat("x", 257), "", "", 400},

	{"no form", "POST", "/act", "verb=pause&name=api&answer=yes", "Content-Type: text/plain", 415},
	{"a form for JSON", "POST", "/api/v1/pause", "name=api", form, 415},
	{"JSON as text, as a foreign page can send it", "POST", "/api/v1/pause", `{"name":"api"}`, "Content-Type: text/plain", 415},
	{"a long form", "POST", "/act", "verb=pause&name=api&answer=yes&reason=" + strings.Repeat("x", big), form, 413},
	{"the longest names, in letters of three bytes", "POST", "/act", url.Values{
		"verb": {"purge"}, "answer": {"yes"}, "name": {strings.Repeat("数", 170)}, "confirm": {strings.Repeat("数", 170)}, "reason": {strings.Repeat("数", 160)},
	}.Encode(), form, 404},
	{"long JSON", "POST", "/api/v1/pause", `{"name":"api","reason":"` + strings.Repeat("x", big) + `"}`, typ, 413},
	{"JSON that is none", "POST", "/api/v1/pause", `{"name":`, typ, 400},
	{"JSON with more behind", "POST", "/api/v1/pause", `{"name":"api"} {}`, typ, 400},
	{"JSON of another kind", "POST", "/api/v1/pause", `["api"]`, typ, 400},
	{"JSON with what is not known", "POST", "/api/v1/pause", `{"name":"api","all":true}`, typ, 400},
	{"a limit that is missing", "POST", "/api/v1/pin", `{"name":"api"}`, typ, 400},
	{"a limit below 0", "POST", "/api/v1/pin", `{"name":"api","limit":-1}`, typ, 400},
	{"a limit above all", "POST", "/api/v1/pin", `{"name":"api","limit":1e12}`, typ, 400},
	{"a limit of 0 that is no pin", "POST", "/api/v1/resize", `{"name":"api","limit":0}`, typ, 400},
	{"an id that is none", "POST", "/api/v1/evict", `{"name":"api","id":"x y"}`, typ, 400},
	{"an id that nobody has", "POST", "/api/v1/evict", `{"name":"api","id":"aaaaaaaa.aaaaaaaaaaaaaaaaaa"}`, typ, 404},
	{"a purge without the name", "POST", "/api/v1/purge", `{"name":"api"}`, typ, 400},
	{"a purge with another name", "POST", "/api/v1/purge", `{"name":"api","confirm":"API"}`, typ, 400},
	{"an eviction by force without the name", "POST", "/api/v1/evict", `{"name":"api","id":"aaaaaaaa.aaaaaaaaaaaaaaaaaa","force":true}`, typ, 400},
	{"a reason with a line break", "POST", "/api/v1/pause", `{"name":"api","reason":"a\nb"}`, typ, 400},
	{"a long reason", "POST", "/api/v1/pause", `{"name":"api","reason":"` + strings.Repeat("x", 501) + `"}`, typ, 400},
	{"a pause of what is not there", "POST", "/api/v1/pause", `{"name":"none"}`, typ, 404},
	{"a question about what cannot be done", "GET", "/act?verb=explode&name=api", "", "", 400},
	{"an action that cannot be done", "POST", "/act", "verb=explode&name=api&answer=yes", form, 400},
	{"the answer no", "POST", "/act", "verb=pause&name=api&answer=no", form, 303},
	{"no answer", "POST", "/act", "verb=pause&name=api", form, 303},
	{"a change by the query of a form", "POST", "/act?verb=pause&name=api&answer=yes", "", form, 400},
}

func (a *attempt) request() *http.Request {
	r := request(a.method, "/", a.body)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(a.target, "?")
	if path, err := r.URL.Parse(a.target); err == nil && !strings.HasPrefix(a.target, "//") && !strings.Contains(a.target, "..") {
		r.URL = path
	}
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7357}))
	r = r.WithContext(ctx)
	for h := range strings.SplitSeq(a.set, "|") {
		if name, value, ok := strings.Cut(h, ": "); ok && name == "Host" {
			r.Host = value
		} else if ok {
			r.Header.Set(name, value)
		}
	}
	return r
}

// TestHostileRequests get the right status, and change nothing.
func TestHostileRequests(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, func(o *berthweb.Options) { o.Hosts = []string{"ops.example"} })
		e.Hold(e.Peer().Named("api", 3))
		before, err := e.Inspector.Show(e.Ctx, "api")
		e.Must(err)
		for _, a := range attempts {
			rec := w.do(a.request())
			if rec.Code != a.want {
				t.Errorf("%s: status %d, want %d: %.200s", a.what, rec.Code, a.want, rec.Body)
			}
			h := rec.Header()
			if !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Access-Control-Allow-Origin") != "" || h.Get("Cache-Control") == "" {
				t.Errorf("%s: headers %v", a.what, h)
			}
			if strings.Contains(rec.Body.String(), "evil") || rec.Code >= 400 && strings.Contains(rec.Body.String(), "<script>") {
				t.Errorf("%s: it says what was sent: %s", a.what, rec.Body)
			}
			var p struct{ Error, Code string }
			if strings.HasPrefix(a.target, "/api/") && rec.Code >= 400 && (json.Unmarshal(rec.Body.Bytes(), &p) != nil || p.Error == "" || p.Code == "") {
				t.Errorf("%s: no JSON: %s", a.what, rec.Body)
			}
		}
		after, err := e.Inspector.Show(e.Ctx, "api")
		e.Must(err)
		if after.Paused || after.Pinned || after.Limit != before.Limit || len(after.Leases) != 1 || after.Leases[0].Evicting {
			t.Errorf("it was changed: %+v", after)
		}
		for entry := range e.Inspector.Audit(e.Ctx) {
			t.Errorf("it is in the audit: %+v", entry)
		}
	})
}

// TestWhoMayOnlyLook can change nothing, whatever they send, and sees no buttons.
func TestWhoMayOnlyLook(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, func(o *berthweb.Options) { o.User = nil })
		l := e.Hold(e.Peer().Named("api", 3))
		for verb, body := range map[string]string{
			"pause": `{"name":"api"}`, "resume": `{"name":"api"}`, "pin": `{"name":"api","limit":1}`, "unpin": `{"name":"api"}`, "resize": `{"name":"api","limit":1}`,
			"evict": `{"name":"api","id":"` + l.ID() + `"}`, "purge": `{"name":"api","confirm":"api"}`,
		} {
			if rec := w.order(verb, body); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "read_only") {
				t.Errorf("%s: status %d: %s", verb, rec.Code, rec.Body)
			}
			if rec := w.post(map[string][]string{"verb": {verb}, "name": {"api"}, "limit": {"1"}, "id": {l.ID()}, "confirm": {"api"}, "answer": {"yes"}}); rec.Code != http.StatusForbidden {
				t.Errorf("%s by a form: status %d", verb, rec.Code)
			}
			if rec := w.do(request(http.MethodGet, "/act?name=api&limit=1&id=x&verb="+verb, "")); rec.Code != http.StatusForbidden {
				t.Errorf("asked about %s: status %d", verb, rec.Code)
			}
		}
		text := w.get("/s?name=api")
		w.wants(text, "read-only", "berth pause --reason REASON api")
		w.lacks(text, "data-ask", `href="act`)
		st, err := e.Inspector.Show(e.Ctx, "api")
		e.Must(err)
		if st.Paused || st.Pinned || st.Limit != 3 || st.Leases[0].Evicting {
			t.Errorf("it was changed: %+v", st)
		}
		e.Pass(time.Second)
		e.Release(l)
	})
}

// TestLoginComesBetween the checks of where a request comes from, and all that it shows;
// the health is told to everybody, by its exact path.
func TestLoginComesBetween(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, func(o *berthweb.Options) {
			o.Login = func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
			}
		})
		for target, want := range map[string]int{
			"/": 401, "/healthz": 200, "/readyz": 200, "/healthz/x": 401, "/healthz/../": 401, "/s": 401, "/api/v1/semaphores": 401, "/api/v1/semaphores/healthz": 401,
			"/static/app.js": 401, "/?x=/healthz": 401, "/HEALTHZ": 401,
		} {
			if rec := w.do(request(http.MethodGet, target, "")); rec.Code != want {
				t.Errorf("%s: status %d, want %d", target, rec.Code, want)
			}
		}
		r := request(http.MethodGet, "/", "")
		r.Host = "evil.example"
		if rec := w.do(r); rec.Code != http.StatusMisdirectedRequest {
			t.Errorf("a foreign host: status %d", rec.Code)
		}
	})
}
