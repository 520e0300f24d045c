package berthweb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthweb"
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
