package berthweb_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// anAction is one that the pages offer, on semaphore "api" with two leases; LEASE stands for
// the id of the first.
type anAction struct {
	verb, command string
	form          url.Values
	json          string
	before        func(*testenv.Env)
	check         func(*berthadmin.State) bool // nil: it is gone
}

// actions are what a page can do.
var actions = []anAction{
	{verb: "pause", command: "berth pause api", check: func(s *berthadmin.State) bool { return s.Paused }},
	{
		verb: "pause", command: "berth pause --for 10m api", form: url.Values{"for": {"600"}}, json: `,"for":"10m"`,
		check: func(s *berthadmin.State) bool { return s.PausedFor > 9*time.Minute && s.PausedFor < 11*time.Minute },
	},
	{
		verb: "resume", command: "berth resume api", check: func(s *berthadmin.State) bool { return !s.Paused },
		before: func(e *testenv.Env) { e.Must(e.Inspector.Pause(e.Ctx, "api")) },
	},
	{
		verb: "pin", command: "berth pin api 0", form: url.Values{"limit": {"0"}}, json: `,"limit":0`,
		check: func(s *berthadmin.State) bool { return s.Pinned && s.Limit == 0 },
	},
	{
		verb: "unpin", command: "berth unpin api", check: func(s *berthadmin.State) bool { return !s.Pinned },
		before: func(e *testenv.Env) { e.Must(e.Inspector.Pin(e.Ctx, "api", 9)) },
	},
	{
		verb: "resize", command: "berth resize api 7", form: url.Values{"limit": {"7"}}, json: `,"limit":7`,
		check: func(s *berthadmin.State) bool { return s.Limit == 7 && !s.Pinned },
	},
	{
		verb: "resize", command: "berth resize --rate 14/1s --rate 50000/24h api", form: url.Values{"rates": {"14/1s 50000/24h"}},
		json: `,"rates":"14/1s 50000/24h"`,
		check: func(s *berthadmin.State) bool {
			return s.Limit == 3 && len(s.Rates) == 2 && s.Rates[0].N == 14 && s.Rates[1].N == 50_000 && s.Rates[1].Per == 24*time.Hour
		},
	},
	{
		verb: "pin", command: "berth pin --rate 14/1s api", form: url.Values{"rates": {"14/1s"}}, json: `,"rates":"14/1s"`,
		check: func(s *berthadmin.State) bool {
			return s.Limit == 3 && !s.Pinned && s.RatesPinned && len(s.Rates) == 1 && s.Rates[0].N == 14
		},
	},
	{
		verb: "unpin", command: "berth unpin --rate api", form: url.Values{"rated": {"1"}}, json: `,"rated":true`,
		check: func(s *berthadmin.State) bool { return s.Pinned && !s.RatesPinned && len(s.Rates) == 1 },
		before: func(e *testenv.Env) {
			e.Must(e.Inspector.Pin(e.Ctx, "api", 9))
			_, _, err := e.Inspector.PinRates(e.Ctx, "api", "", berthadmin.Rate{N: 14, Per: time.Second})
			e.Must(err)
		},
	},
	{
		verb: "evict", command: "berth evict api LEASE", form: url.Values{"id": {"LEASE"}}, json: `,"id":"LEASE"`,
		check: func(s *berthadmin.State) bool { return s.Leases[0].Evicting },
	},
	{
		verb: "evict", command: "berth evict --force api LEASE", form: url.Values{"id": {"LEASE"}, "force": {"1"}, "confirm": {"api"}}, json: `,"id":"LEASE","force":true,"confirm":"api"`,
		check: func(s *berthadmin.State) bool { return len(s.Leases) == 1 },
	},
	{verb: "purge", command: "berth purge api", form: url.Values{"confirm": {"api"}}, json: `,"confirm":"api"`},
}

// TestEachAction, by a form and by JSON: the question shows the command, the change is made,
// and the audit names who made it and why.
func TestEachAction(t *testing.T) {
	for _, a := range actions {
		for how, take := range map[string]func(anAction, *web, string){"form": anAction.takeByForm, "json": anAction.takeByJSON} {
			t.Run(a.command+" by "+how, func(t *testing.T) {
				testenv.Embedded(t, func(e *testenv.Env) {
					w := open(e, nil, nil)
					sem := e.Peer().Named("api", 3, berth.Label("worker"))
					l := e.Hold(sem)
					e.Hold(sem)
					if a.before != nil {
						a.before(e)
					}
					take(a, w, l.ID())
					a.wasTaken(w)
				})
			})
		}
	}
}

// values are those of the form; its page asks the question.
func (a anAction) values(w *web, lease string) url.Values {
	w.Helper()
	fill := func(s string) string { return strings.ReplaceAll(s, "LEASE", lease) }
	values := url.Values{"verb": {a.verb}, "name": {"api"}}
	for key, v := range a.form {
		values.Set(key, fill(v[0]))
	}
	question := w.get("/act?" + values.Encode())
	w.wants(question, ">"+fill(a.command)+"</code>", `value="no" autofocus`)
	if a.verb == "evict" {
		w.wants(question, "worker (")
	}
	return values
}

func (a anAction) takeByForm(w *web, lease string) {
	w.Helper()
	values := a.values(w, lease)
	values.Set("reason", "it's stuck")
	values.Set("answer", "yes")
	rec := w.post(values)
	want := "s?name=api&done=" + a.verb
	if a.check == nil {
		want = "./?done=purge"
	}
	if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != want {
		w.Fatalf("status %d, to %q: %s", rec.Code, rec.Header().Get("Location"), rec.Body)
	}
	if a.check != nil {
		w.wants(w.get("/"+want), `role="status"`)
	}
}

func (a anAction) takeByJSON(w *web, lease string) {
	w.Helper()
	rec := w.order(a.verb, `{"name":"api","reason":"it's stuck"`+strings.ReplaceAll(a.json, "LEASE", lease)+"}")
	if rec.Code != http.StatusOK {
		w.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
}

// wasTaken looks at the store, the audit and the log.
func (a anAction) wasTaken(w *web) {
	w.Helper()
	st, err := w.Inspector.Show(w.Ctx, "api")
	if a.check == nil {
		w.WantErr(err, berthadmin.ErrNotFound)
	} else if w.Must(err); !a.check(st) {
		w.Errorf("afterwards: %+v", st)
	}
	audited := 0
	for entry, err := range w.Inspector.Audit(w.Ctx) {
		w.Must(err)
		if audited++; entry.Who != "ann@192.0.2.1" || entry.Why != "it's stuck" || !strings.HasPrefix(entry.Verb, a.verb) {
			w.Errorf("audit: %+v", entry)
		}
	}
	if audited != 1 || !strings.Contains(w.log.String(), "who=ann@192.0.2.1") {
		w.Errorf("%d entries in the audit, log %s", audited, &w.log)
	}
}

// TestAPageShowsWhatWasDoneOnIt at once, although pictures are taken at their own pace.
func TestAPageShowsWhatWasDoneOnIt(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		e.Hold(e.Peer().Named("api", 3))
		w.wants(w.get("/s?name=api"), "verb=pause")
		for i, verb := range []string{"pause", "resume", "pause", "resume"} {
			w.post(url.Values{"verb": {verb}, "name": {"api"}, "answer": {"yes"}})
			text := w.get("/s?name=api")
			if n := strings.Count(w.get("/audit"), "<td>ann@192.0.2.1</td>"); n != i+1 {
				e.Errorf("%d actions in the audit after %d", n, i+1)
			}
			if verb == "pause" {
				w.wants(text, "Paused by ann@192.0.2.1", "verb=resume")
			} else {
				w.lacks(text, "verb=resume")
			}
		}
	})
}

// TestWhatIsWrongWithAnAnswer is told where it was given, and nothing is changed.
func TestWhatIsWrongWithAnAnswer(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		w := open(e, nil, func(o *berthweb.Options) { o.RequireReason = true })
		l := e.Hold(e.Peer().Named("api", 3))
		for _, c := range []struct {
			values url.Values
			status int
			text   string
		}{
			{url.Values{"verb": {"pause"}}, 400, "a reason is required"},
			{url.Values{"verb": {"purge"}, "reason": {"x"}, "confirm": {"apis"}}, 400, "the name was not typed as it is"},
			{url.Values{"verb": {"evict"}, "id": {l.ID()}, "force": {"1"}, "reason": {"x"}}, 400, "the name was not typed as it is"},
			{url.Values{"verb": {"evict"}, "id": {"aaaaaaaa.aaaaaaaaaaaaaaaaaa"}, "reason": {"x"}}, 404, "neither holds nor waits"},
			{url.Values{"verb": {"pause"}, "reason": {"a\u202eb"}}, 400, "reason"},
			{url.Values{"verb": {"pause"}, "reason": {"x"}, "for": {"soon"}}, 400, `value="soon"`},
			{url.Values{"verb": {"pause"}, "reason": {"x"}, "for": {"0"}}, 400, "0s is outside 10ms to 720h"},
		} {
			c.values.Set("name", "api")
			c.values.Set("answer", "yes")
			rec := w.post(c.values)
			if rec.Code != c.status {
				t.Errorf("%v: status %d", c.values, rec.Code)
			}
			w.wants(rec.Body.String(), `<p class="stale" role="alert">`, c.text, `method="post"`)
		}
		if rec := w.order("pause", `{"name":"api"}`); rec.Code != http.StatusBadRequest || !strings.Contains(rec.Body.String(), `"code": "reason"`) {
			t.Errorf("JSON without a reason: %d %s", rec.Code, rec.Body)
		}
		st, err := e.Inspector.Show(e.Ctx, "api")
		e.Must(err)
		if st.Paused || len(st.Leases) != 1 || st.Leases[0].Evicting {
			t.Errorf("it was changed: %+v", st)
		}
		e.Pass(time.Second)
	})
}
