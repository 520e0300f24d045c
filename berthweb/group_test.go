package berthweb_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// keyed makes three semaphores api/..., of which one is paused and the busiest is api/c, and others.
func keyed(e *testenv.Env) {
	e.Helper()
	p := e.Peer()
	for i, key := range []string{"a", "b", "c"} {
		for range i + 1 {
			e.Hold(p.Named("api/"+key, 3))
		}
	}
	e.Queue(p.Named("api/c", 3))
	e.Must(e.Inspector.Pause(e.Ctx, "api/a"))
	e.Hold(p.Named("db/reports", 8))
	e.Hold(p.Named("db/<b>", 8))
}

// TestKeyedNamesAreOneRow with their totals, and a link to each of them.
func TestKeyedNamesAreOneRow(t *testing.T) {
	for what, c := range map[string]struct {
		group         []string
		one, each     string // targets
		alone, insert string
	}{
		"by their prefix, when asked": {nil, "/?group=1", "/", "db/reports", "api/*"},
		"by patterns, until asked":    {[]string{"api/*"}, "/", "/?group=0", "db/reports", "api/*"},
		"by the first pattern":        {[]string{"*/?", "api/*"}, "/", "/?group=0", "db/reports", "*/?"},
	} {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				w := open(e, nil, func(o *berthweb.Options) { o.Group = c.group })
				keyed(e)
				w.get("/")
				e.Pass(2 * time.Second)
				one := w.get(c.one)
				w.wants(one, fmt.Sprintf(`>%s</a> <a id="badge-paused-%s"`, c.insert, c.insert), ">1 paused</a>", "<span>6/9</span>", "3 semaphores, 1 waiting for api/c",
					"5 semaphores in 3 rows", ">"+c.alone+"<", `aria-current="true">grouped</a>`, `aria-label="Last minute: peak 7, last 7"`)
				w.lacks(one, ">api/a<", ">api/c<")
				each := w.get(c.each)
				w.wants(each, ">api/a<", ">api/b<", ">api/c<", ">grouped</a>")
				w.lacks(each, c.insert+"</a>")
				w.wants(w.get("/?q=api/*&group=0"), ">api/a<", `class="foot">3 semaphores`)
			})
		})
	}
}

// TestGroupThatIsNoPattern is refused.
func TestGroupThatIsNoPattern(t *testing.T) {
	if _, err := berthweb.New(nil, nil, berthweb.Options{Group: []string{"["}}); !errors.Is(err, berth.ErrInvalid) {
		t.Error(err)
	}
}
