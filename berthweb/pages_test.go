package berthweb_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// openStuck opens the pages a minute after somebody began to wait for deploy/production, whose holder
// it returns. Beside it, api is paused and bad is damaged.
func openStuck(e *testenv.Env) (*web, *berth.Lease) {
	w := open(e, nil, nil)
	p := e.Peer()
	sem := p.Named("deploy/production", 1, berth.Label("release"))
	l := e.Hold(sem)
	e.Queue(sem)
	e.Hold(p.Named("api", 5))
	e.Must(e.Inspector.Because("ann", "API migration").Pause(e.Ctx, "api"))
	e.Must(e.Redis.Set(e.Ctx, e.Prefix+":{bad}", "x", 0).Err())
	e.Pass(time.Minute)
	return w, l
}

func TestPagesAnswerWhatIsStuckAndWhoHasIt(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w, l := openStuck(e)
		list := w.get("/")
		w.wants(list, ">deploy/production<", "1/1", "1m00s", `class="badge warn" href="https://github.com/berth-go/berth/blob/main/docs/runbook.md#berthpaused" rel="noreferrer" title="what to do">paused</a>`, `>damaged</a>`, "3 semaphores", `aria-sort="descending"`)
		if strings.Index(list, ">deploy/production<") > strings.Index(list, ">api<") {
			t.Error("whom most wait for is not first")
		}
		one := w.get("/s?name=deploy/production")
		w.wants(one, "1 of 1", "The first in the queue waits for 1 permit of release (", html.EscapeString(l.ID()), "evict", "1m00s", "berth pause --reason REASON deploy/production", "berth pin --reason REASON deploy/production 1", "berth audit deploy/production", "berth evict --reason REASON deploy/production "+html.EscapeString(l.ID()))
		w.wants(w.get("/s?name=api"), "Paused by ann", "API migration")
		w.wants(w.get("/s?name=bad"), "damaged", "Purge")
		w.wants(w.get("/audit"), "API migration", "ann", `href="s?name=api"`)
		w.wants(w.get("/audit?name=deploy/production"), "Nothing is recorded of it.")
		e.Must(e.Inspector.Because("bob", "").Pin(e.Ctx, "api", 4))
		e.Must(e.Inspector.Because("bob", "").Unpin(e.Ctx, "api"))
		e.Pass(11 * time.Second)
		w.wants(w.get("/audit"), "pin</span> 5 → 4<", "unpin</span> was 4<")
		w.wants(w.get("/doctor"), "&lt;full&gt;", "Buy more.", "WARN")
		w.wants(w.get("/about"), "ann@192.0.2.1", "3 looked at", "api/v1/semaphores")
		w.get("/healthz")
		w.get("/readyz")
		e.Release(l)
	})
}

// TestJSONAnswersWhatIsStuckAndWhoHasIt, as the pages do.
func TestJSONAnswersWhatIsStuckAndWhoHasIt(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w, l := openStuck(e)
		var found struct {
			Semaphores []berthadmin.Summary
			Damaged    []berthwatch.Damaged
			Total      int
			Next       string
		}
		w.json("/api/v1/semaphores?limit=1", &found)
		if len(found.Semaphores) != 1 || found.Semaphores[0].Name != "deploy/production" || found.Semaphores[0].OldestWait < time.Minute || found.Total != 3 || found.Next != "1" {
			t.Errorf("semaphores: %+v", found)
		}
		w.json("/api/v1/semaphores?state=damaged", &found)
		if len(found.Damaged) != 1 || found.Damaged[0].Name != "bad" {
			t.Errorf("damaged: %+v", found)
		}
		var st berthadmin.State
		w.json("/api/v1/semaphore?name=deploy/production", &st)
		if len(st.Leases) != 1 || st.Leases[0].Label != "release" || len(st.Queue) != 1 {
			t.Errorf("state: %+v", st)
		}
		var history struct{ Points []berthwatch.Point }
		w.json("/api/v1/history?name=api", &history)
		if len(history.Points) == 0 || history.Points[0].InUse != 1 {
			t.Errorf("history: %+v", history)
		}
		e.Must(e.Inspector.Because("bob", "").Pin(e.Ctx, "api", 4))
		e.Pass(11 * time.Second)
		var audit []berthadmin.Audited
		w.json("/api/v1/audit?name=api", &audit)
		if len(audit) != 2 || audit[1].Who != "ann" {
			t.Errorf("audit: %+v", audit)
		}
		if rec := w.do(request(http.MethodGet, "/api/v1/semaphore?name=bad", "")); rec.Code != http.StatusConflict {
			t.Errorf("a damaged one: status %d", rec.Code)
		}
		e.Release(l)
	})
}

// TestPagesShowARate: what is spent, when there is room, and that there is no limit.
func TestPagesShowARate(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		sem := e.Peer().Named("llm", berth.NoLimit, berth.Rate(3, time.Minute), berth.Rate(9, time.Hour).Of("tokens"))
		e.Hold(sem, berth.Cost(2))
		e.Queue(sem, berth.Cost(3), berth.Cost(5).Of("tokens"))
		w.get("/")
		e.Pass(10 * time.Second)
		w.wants(w.get("/"), ">llm<", "1/any")
		w.wants(w.get("/s?name=llm"), "1 of any", "2 of 3 spent in 1m0s, 1 of 9 tokens spent in 1h0m0s", "waits for the rate: 2 of 3 spent in 1m0s, room for 3 in ",
			`<td class="wide">3, 5 tokens</td>`, `value="3/1m tokens=9/1h"`, "berth resize --rate 3/1m --rate tokens=9/1h --reason REASON llm")
		if body := w.get("/api/v1/semaphores"); !strings.Contains(body, `"limit": null`) || strings.Contains(body, "1073741824") {
			e.Errorf("no limit is told as a number: %s", body)
		}
		e.Hold(e.Peer().Named("mail", berth.NoLimit, berth.Rate(1, time.Minute)))
		e.Pass(2 * time.Second)
		w.wants(w.get("/"), `>rate spent</a>`)
	})
}

// TestPagesShowTenants: of holders and of waiters, and they are found by them.
func TestPagesShowTenants(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		sem := e.Peer().Named("llm", 1)
		e.Hold(sem, berth.Tenant("acme<b>"))
		e.Queue(sem, berth.Tenant("globex"))
		w.get("/s?name=llm")
		e.Pass(10 * time.Second)
		w.wants(w.get("/s?name=llm"), "for acme&lt;b&gt;<", "for globex<")
	})
}

// TestPurgeIsNoAdviceForWhatIsSound: not where a newer berth works with it, and not where it
// heals by itself.
func TestPurgeIsNoAdviceForWhatIsSound(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		key := func(name string) string { return e.Prefix + ":{" + name + "}" }
		e.Must(e.Redis.HSet(e.Ctx, key("newer"), "state", "4 what comes next").Err())
		e.Must(e.Redis.Set(e.Ctx, key("bad"), "x", 0).Err())
		p := e.Peer()
		e.Hold(p.Named("half", 1, berth.TTL(time.Minute)))
		e.Queue(p.Named("half", 1, berth.TTL(time.Minute)))
		p.Crash()
		e.Must(e.Redis.Del(e.Ctx, key("half")).Err())
		for name, want := range map[string]struct {
			code, hint string
			purge      bool
		}{
			"newer": {"newer", "leave the keys alone", false},
			"half":  {"damaged", "It heals by itself", true}, // who cannot wait may
			"bad":   {"damaged", "purge is the way out", true},
		} {
			rec := w.do(request(http.MethodGet, "/api/v1/semaphore?name="+name, ""))
			if rec.Code != http.StatusConflict {
				e.Errorf("%s: status %d", name, rec.Code)
			}
			w.wants(rec.Body.String(), `"code": "`+want.code+`"`, want.hint)
			page := w.get("/s?name=" + name)
			w.wants(page, want.hint)
			if strings.Contains(page, `id="act-purge"`) != want.purge {
				e.Errorf("%s: the page offers a purge: %v", name, !want.purge)
			}
		}
	})
}

// names are of other people's programs, and meant to break a page.
var names = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "' onmouseover='alert(1)", "javascript:alert(1)", "a/b?c=d&e#f%2F..", "../../etc/passwd", "//evil.example",
	"日本語 é", "-x", "&lt;b&gt;", "a+b c", `back\slash`, "`tick`", "$(x)", "\u2028line", "zero\u200bwidth", strings.Repeat("long", 128), "--reason", "</textarea></title>",
}

// allowed are the elements of our pages, and their attributes.
var allowed = regexp.MustCompile(`^</?(?:!doctype|html|head|meta|title|link|script|body|a|header|nav|p|main|h[12]|form|label|input|button|div|dl|dt|dd|table|caption|thead|tbody|tr|th|td|span|b|svg|rect|path|ol|ul|li|figure|figcaption|details|summary|code|kbd|dialog|output|br)(?: (?:[a-z-]+(?:="[^"<>]*")?|viewBox="[^"]*"|preserveAspectRatio="none"))* ?/?>$`)

// TestHostileNames: whatever names, labels and reasons are, a page has our elements alone, and
// its links lead to what they name.
func TestHostileNames(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, nil)
		p := e.Peer()
		for _, name := range names {
			label := name[:min(len(name), berth.MaxLabel)]
			sem := p.Named(name, 2, berth.Label(strings.ToValidUTF8(label, "")))
			e.Hold(sem)
			e.Hold(sem)
			e.Queue(sem)
			e.Must(e.Inspector.Because(strings.ToValidUTF8(name[:min(len(name), 100)], ""), label).Pin(e.Ctx, name, 2))
		}
		e.Pass(5 * time.Second)
		pages := []string{"/", "/audit", "/about", "/doctor", "/?q=" + url.QueryEscape(names[1]), "/?fragment=1"}
		for _, name := range names {
			q := url.QueryEscape(name)
			pages = append(pages, "/s?name="+q, "/audit?name="+q, "/act?verb=pause&name="+q, "/act?verb=pin&limit=3&name="+q+"&reason="+q, "/act?verb=purge&name="+q)
		}
		for _, target := range pages {
			text := w.get(target)
			for _, part := range regexp.MustCompile(`<[^>]*>?`).FindAllString(text, -1) {
				if !allowed.MatchString(part) || strings.Contains(part, " on") && !strings.Contains(part, "autocomplete") && regexp.MustCompile(`\son[a-z]+=`).MatchString(attribute.ReplaceAllString(part, "")) || strings.Contains(part, " style=") {
					t.Errorf("%s has the element %q", target, part)
				}
			}
			if n := strings.Count(text, "<script"); n > 1 || n == 1 && !strings.Contains(text, `<script type="module" src="static/app.js"></script>`) {
				t.Errorf("%s has %d scripts", target, n)
			}
			for _, link := range links(text) {
				if u, err := url.Parse(link); err != nil || u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/") {
					t.Errorf("%s links to %q", target, link)
				}
			}
		}
		list := w.get("/?limit=1000")
		for _, name := range names {
			found := false
			for _, link := range links(list) {
				if u, _ := url.Parse(link); u.Path == "s" && u.Query().Get("name") == name {
					found = true
				}
			}
			if !found {
				t.Errorf("no link to %q", name)
			}
			var st berthadmin.State
			if w.json("/api/v1/semaphore?name="+url.QueryEscape(name), &st); st.Name != name {
				t.Errorf("%q as JSON: %q", name, st.Name)
			}
		}
	})
}

// TestPagesSayThatTheyAreOurs, whatever their status, whole and in part, and nothing else does: so
// the script does not show a proxy's page in their place.
func TestPagesSayThatTheyAreOurs(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		e.Must(e.Inspector.Pin(e.Ctx, "api", 3))
		for target, want := range map[string]string{
			"/": "1", "/s?name=api": "1", "/s?name=none": "1", "/audit": "1", "/doctor": "1", "/about": "1", "/act?verb=pause&name=api": "1",
			"/?fragment=1": "1", "/s?name=none&fragment=1": "1", "/act?verb=pause&name=api&fragment=1": "1",
			"/nosuch": "", "/s?fragment=1": "", "/healthz": "", "/static/app.js": "", "/api/v1/semaphores": "",
		} {
			if rec := w.do(request(http.MethodGet, target, "")); rec.Header().Get("Berth-Page") != want {
				e.Errorf("%s: status %d, headers %v", target, rec.Code, rec.Header())
			}
		}
	})
}

// TestNothingNewIsNotSentAgain: a picture that has not changed is 304, and one that has is not. A
// whole page has the time of its data in it.
func TestNothingNewIsNotSentAgain(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, nil)
		e.Must(e.Inspector.Pin(e.Ctx, "api", 3))
		for _, target := range []string{"/?fragment=1", "/api/v1/semaphore?name=api", "/static/app.js", "/static/style.css", "/audit"} {
			for range 30 { // then the pictures of the last minute are full of the same
				w.get(target)
				e.Pass(3 * time.Second)
			}
			first := w.do(request(http.MethodGet, target, ""))
			e.Pass(3 * time.Second)
			r := request(http.MethodGet, target, "")
			r.Header.Set("If-None-Match", first.Header().Get("ETag"))
			weak := r.Clone(t.Context()) // as a proxy that compresses makes it
			weak.Header.Set("If-None-Match", "W/"+first.Header().Get("ETag"))
			if rec := w.do(weak); rec.Code != http.StatusNotModified {
				t.Errorf("%s: status %d for a weak tag", target, rec.Code)
			}
			if rec := w.do(r); rec.Code != http.StatusNotModified || rec.Body.Len() > 0 {
				t.Errorf("%s: status %d, tag %q, %s\nbefore: %s", target, rec.Code, first.Header().Get("ETag"), rec.Body, first.Body)
			}
			if strings.HasPrefix(target, "/static") {
				continue
			}
			e.Must(e.Inspector.Because("ann", "").Pin(e.Ctx, "api", 4))
			e.Pass(12 * time.Second)
			if rec := w.do(r); rec.Code != http.StatusOK {
				t.Errorf("%s after a change: status %d", target, rec.Code)
			}
			e.Must(e.Inspector.Pin(e.Ctx, "api", 3))
		}
	})
}

// TestListIsFilteredSortedAndPaged by the server.
func TestListIsFilteredSortedAndPaged(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, nil)
		for i := range 250 {
			e.Must(e.Inspector.Pin(e.Ctx, fmt.Sprintf("n%03d", i), 1+i))
		}
		e.Must(e.Inspector.Pause(e.Ctx, "n007"))
		rows := regexp.MustCompile(`href="s\?name=(\w+)"`)
		find := func(target string) (all []string) {
			for _, m := range rows.FindAllStringSubmatch(w.get(target), -1) {
				all = append(all, m[1])
			}
			return all
		}
		if all := find("/?sort=name"); len(all) != 100 || all[0] != "n000" {
			t.Errorf("%d rows, %v", len(all), all)
		}
		text := w.get("/?sort=name&reverse=1")
		w.wants(text, "1 to 100 of 250 semaphores", `href="?cursor=100&amp;reverse=1&amp;sort=name"`)
		if all := find("/?sort=name&reverse=1&cursor=200"); len(all) != 50 || all[49] != "n000" {
			t.Errorf("%d rows, %v", len(all), all)
		}
		if all := find("/?q=N00*&sort=name"); len(all) != 10 {
			t.Errorf("%v", all)
		}
		if all := find("/?state=paused"); len(all) != 1 || all[0] != "n007" {
			t.Errorf("%v", all)
		}
		w.wants(w.get("/?q=none"), "None of them passes this filter.")
	})
}

// TestManyHoldersComeInPages.
func TestManyHoldersComeInPages(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, nil)
		sem := e.Peer().Named("api", 450)
		for range 450 {
			e.Hold(sem)
		}
		text := w.get("/s?name=api")
		w.wants(text, "1 to 200 of 450", `href="?holders=200&amp;name=api"`)
		if n := strings.Count(text, "<tr><td"); n < 200 || n > 220 {
			t.Errorf("%d rows", n)
		}
		w.wants(w.get("/s?name=api&holders=400"), "401 to 450 of 450")
		var st berthadmin.State
		if w.json("/api/v1/semaphore?name=api&holders=7", &st); len(st.Leases) != 7 || st.Holders != 450 {
			t.Errorf("%d leases of %d", len(st.Leases), st.Holders)
		}
	})
}

// TestNobodyIsAskedTwice: however many look, Redis is asked once.
func TestNobodyIsAskedTwice(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p := e.Peer()
		w := open(e, p, nil)
		e.Must(e.Inspector.Pin(e.Ctx, "api", 3))
		w.get("/s?name=api")
		e.Pass(5 * time.Second)
		commands := func(viewers int) (n int) {
			before := p.Net.Count()
			for range 10 {
				for range viewers {
					w.get("/s?name=api")
					w.get("/")
				}
				e.Pass(time.Second)
			}
			return p.Net.Count() - before
		}
		one, many := commands(1), commands(50)
		if many > one+one/2+5 || one == 0 {
			t.Errorf("%d commands for one who looks, %d for fifty", one, many)
		}
		e.Pass(2 * time.Minute)
		before := p.Net.Count()
		e.Pass(30 * time.Minute)
		if n := p.Net.Count() - before; n > 2 {
			t.Errorf("%d commands in half an hour in which nobody looks", n)
		}
	})
}

// TestOptionsThatCannotWork are refused by New, with what to write instead.
func TestOptionsThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		options berthweb.Options
		advice  string
	}{
		{berthweb.Options{Origins: []string{"ops.example.com/"}}, ""},
		{berthweb.Options{Hosts: []string{"*", "ops.example.com:8443"}}, `write "ops.example.com"`},
		{berthweb.Options{Hosts: []string{"https://ops.example.com/berth"}}, `write "ops.example.com"`},
		{berthweb.Options{Hosts: []string{"[2001:db8::1]:8443"}}, `write "2001:db8::1"`},
		{berthweb.Options{Hosts: []string{"*.example.com"}}, "write each in full"},
		{berthweb.Options{Hosts: []string{""}}, "write each in full"},
		{berthweb.Options{BasePath: "berth/"}, `write "/berth"`},
	} {
		if _, err := berthweb.New(nil, nil, c.options); err == nil || !strings.Contains(err.Error(), c.advice) {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
	for _, o := range []berthweb.Options{{Hosts: []string{"*", "ops", "Ops.example.com.", "2001:db8::1", "192.0.2.1"}}, {BasePath: "/"}, {BasePath: "/a/b/"}} {
		if _, err := berthweb.New(nil, nil, o); err != nil {
			t.Error(err)
		}
	}
}
