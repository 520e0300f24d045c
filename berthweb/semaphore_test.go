package berthweb_test

import (
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestEveryPageNamesItsRedis, in the title, the head and before a change: two consoles look alike.
func TestEveryPageNamesItsRedis(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, func(o *berthweb.Options) { o.Redis = "redis.example:6379/2, prefix <a>" })
		e.Hold(e.Peer().Named("api", 5))
		const where = "redis.example:6379/2, prefix &lt;a&gt;"
		for _, page := range []string{"/", "/s?name=api", "/audit", "/doctor", "/about", "/act?verb=pause&name=api"} {
			w.wants(w.get(page), " · berth · "+where+"</title>", `these pages">`+where+"</p>")
		}
		w.wants(w.get("/act?verb=pause&name=api"), "Server: "+where)
	})
}

// TestSlotsAreDrawnWhereEachHolderHasOne: beside a heavy lease they would contradict the bar.
func TestSlotsAreDrawnWhereEachHolderHasOne(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		sem := e.Peer().Named("api", 5)
		e.Hold(sem)
		const slots = `<ol class="slots"`
		w.wants(w.get("/s?name=api"), slots)
		e.Hold(sem, berth.Weight(2))
		e.Pass(5 * time.Second)
		if strings.Contains(w.get("/s?name=api"), slots) {
			t.Error("a lease of 2 permits has one slot, and the others look free")
		}
	})
}

// TestDeadHolderIsMarked: it has missed its renewals, the list shows when its lease ends, however
// often waiters are heard of, and who waits is counted.
func TestDeadHolderIsMarked(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		dead, p := e.Peer(), e.Peer()
		e.Hold(dead.Named("api", 1, berth.TTL(20*time.Minute), berth.Label("old")))
		dead.Crash()
		for _, label := range []string{"acme", "acme", "beta"} {
			e.Queue(p.Named("api", 1, berth.Label(label)))
		}
		e.Pass(13 * time.Minute)
		w.get("/s?name=api")
		e.Pass(5 * time.Second)
		w.wants(w.get("/s?name=api"), `<span class="badge bad">not renewed for 13m`, "By label: old 1 held · acme 2 waiting · beta 1 waiting.")
		w.get("/")
		e.Pass(5 * time.Second)
		list := w.get("/")
		w.wants(list, `<td class="num wide">6m`, "most wait for acme (2)")
	})
}

// TestCostlyHeadHasABadge: a part of the rate is left, and not enough for the first in the queue.
func TestCostlyHeadHasABadge(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		sem := e.Peer().Named("api", berth.NoLimit, berth.Rate(5, time.Hour))
		e.Release(e.Hold(sem, berth.Cost(3)))
		e.Queue(sem, berth.Cost(4))
		w.wants(w.get("/"), ">waits for the rate</a>", "/any</span>")
		w.wants(w.get("/s?name=api"), ">waits for the rate</a>", "3 of 5 spent", "room in 1h00m")
		w.lacks(w.get("/s?name=api"), "value=\"1073741824")
	})
}

// TestFlapping: a limit that changes to and fro is told.
func TestFlapping(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		p := e.Peer()
		e.Hold(p.Named("api", 3))
		for i := range 6 {
			w.get("/")
			e.Must(e.Inspector.Resize(e.Ctx, "api", 4+i%2))
			e.Pass(5 * time.Second)
		}
		w.wants(w.get("/?state=flapping"), ">api<", "flapping")
		for range 20 {
			w.get("/")
			e.Pass(time.Minute)
		}
		w.lacks(w.get("/?state=flapping"), ">api<")
	})
}

// TestHoldersAndWaitersAreFiltered by label, host, process and id, on the page and in JSON.
func TestHoldersAndWaitersAreFiltered(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		red, blue := e.Peer().Named("api", 3, berth.Label("red")), e.Peer().Named("api", 3, berth.Label("blue"))
		e.Hold(red)
		e.Hold(red)
		l := e.Hold(blue)
		e.Queue(blue)
		for q, want := range map[string]struct {
			leases, queue int
			says          string
		}{
			"":                              {3, 1, ">Holders </h2>"},
			"RED":                           {2, 0, "2 that pass the filter, of 3"},
			"bl*":                           {1, 1, "1 that pass the filter, of 3"},
			strconv.Itoa(os.Getpid()):       {3, 1, ">Holders </h2>"},
			":" + strconv.Itoa(os.Getpid()): {3, 1, ">Queue </h2>"},
			l.ID():                          {1, 0, "0 that pass the filter, of 1"},
			"nobody":                        {0, 0, "0 that pass the filter, of 3"},
		} {
			target := "s?" + url.Values{"name": {"api"}, "q": {q}}.Encode()
			w.wants(w.get("/"+target), want.says, "3 of 3</b> in use")
			var st berthadmin.State
			if w.json("/api/v1/"+strings.Replace(target, "s?", "semaphore?", 1), &st); len(st.Leases) != want.leases || len(st.Queue) != want.queue || st.Holders != 3 {
				e.Errorf("%q: %d leases, %d waiters: %+v", q, len(st.Leases), len(st.Queue), st)
			}
		}
	})
}

// TestAgeOfTheDataIsAlwaysTold: in the page, and beside each of its parts.
func TestAgeOfTheDataIsAlwaysTold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		e.Must(e.Inspector.Pin(e.Ctx, "api", 3))
		for _, target := range []string{"/", "/?fragment=1", "/s?name=api", "/s?name=api&fragment=1", "/s?name=idle"} {
			w.get("/")
			e.Pass(700 * time.Millisecond)
			rec := w.do(request(http.MethodGet, target, ""))
			age, err := strconv.Atoi(rec.Header().Get("Berth-Age"))
			if err != nil || age < 0 || age > 1100 {
				e.Errorf("%s: the age is %q", target, rec.Header().Get("Berth-Age"))
			}
			if whole := !strings.Contains(target, "fragment"); strings.Contains(rec.Body.String(), ">as of ") != whole {
				e.Errorf("%s: whole %v: %s", target, whole, rec.Body)
			}
		}
	})
}

// TestPagesTellWhatWasHeard: hand-offs a second, expiries, how long waiters have waited so far, and
// where the rest is.
func TestPagesTellWhatWasHeard(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		p := e.Peer()
		e.Hold(p.Named("api", 1, berth.TTL(time.Second), berth.WithoutRenewal()))
		w.get("/s?name=api")
		e.Pass(500 * time.Millisecond)
		for range 3 {
			e.Queue(p.Named("api", 1))
		}
		for range 10 { // the lease expires, and the first waiter has the next
			e.Pass(time.Second)
			w.get("/s?name=api")
		}
		heard := []string{`<dt>handed over a second</dt><dd>0.1</dd>`, `<dt>expired in an hour</dt><dd>1</dd>`}
		w.wants(w.get("/"), heard...)
		w.wants(w.get("/s?name=api"), append(heard, `<dt>waiting, p50</dt><dd>9.5s</dd>`, `<dt>p99</dt><dd>9.5s</dd>`, "docs/telemetry.md#metrics", "docs/runbook.md#berthqueueold")...)

		deaf := e.Peer()
		deaf.Net.Inject(redistest.Rule{Match: redistest.Named("PSUBSCRIBE"), Fault: redistest.Reset, Times: -1})
		w = open(e, deaf, nil)
		w.wants(w.get("/"), `<dt>handed over a second</dt><dd>–</dd>`, `<dt>expired in an hour</dt><dd>–</dd>`)
	})
}
