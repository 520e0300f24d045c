package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// both asks for a permit of the narrow limit and of the tests' own, which is the wide one.
func both(more ...string) string {
	all := append([]string{fmt.Sprintf(`"all":[{"name":"narrow","limit":1},{"name":%q,"limit":2,"weight":1}]`, testenv.Name)}, more...)
	return post("{" + strings.Join(all, ",") + "}")
}

// narrow is what is known of the narrow limit; nil: it is not in use.
func (w *world) narrow() *berthadmin.State {
	w.Helper()
	for st, err := range w.Inspector.Sample(w.Ctx, []string{"narrow"}, berthadmin.SampleOptions{Records: true}) {
		if err == nil {
			return st
		}
	}
	return nil
}

// TestSeveralLimitsInOneHold are taken in their order, all or none: whoever waits for a narrow one
// holds nothing of a wide one, and whoever does not get the wide one gives the narrow one back.
func TestSeveralLimitsInOneHold(t *testing.T) {
	each(t, func(w *world) {
		first := w.send(both())
		a := first.until("granted")
		for w.late(a) {
			first = w.send(both())
			a = first.until("granted")
		}
		if len(a.All) != 2 || a.All[0].Name != "narrow" || a.All[1].Name != testenv.Name || a.All[0].Token != a.Token || a.All[1].Limit != 2 {
			w.Errorf("the grant is %+v", a)
		}
		next := w.insists(both(), "queued")
		if st := w.Show(); st.InUse != 1 || st.Waiting != 0 {
			w.Errorf("of the wide one %d are in use, and %d wait", st.InUse, st.Waiting)
		}
		if got := w.refused(both(`"wait_ms":0`)); got.Error != "busy" || got.Name != "narrow" || got.InUse != 1 || got.Limit != 1 || got.Waiting != 1 {
			w.Errorf("it is told %+v", got)
		}
		first.conn.Close()
		next.wants("granted")
		next.conn.Close()
		w.untilHeld(0)

		w.holds(2, `"weight":2`)
		if got := w.refused(both(`"wait_ms":0`)); got.Error != "busy" || got.Name != testenv.Name || got.InUse != 2 {
			w.Errorf("without the wide one it is told %+v", got)
		}
		if st := w.narrow(); st != nil && st.InUse > 0 {
			w.Errorf("it keeps %d of the narrow one", st.InUse)
		}
	})
}

// TestSeveralLimitsEndTogether: when one is lost, the client has to stop, and at the end of its time
// the others are free, too.
func TestSeveralLimitsEndTogether(t *testing.T) {
	each(t, func(w *world) {
		p := w.insists(both(`"ttl_ms":3000`), "granted")
		w.Must(w.Inspector.ForceEvict(w.Ctx, testenv.Name, w.lease().ID))
		p.wants("stop")
		if e := p.until("lost"); !w.late(e) && (e.Reason != "evicted" || !strings.Contains(e.Message, testenv.Name)) {
			w.Errorf("it is told %+v", e)
		}
		w.insists(both(), "granted")
	})
}

// TestTheLossOfOneEndsTheWaitForAnother, which would be of no use.
func TestTheLossOfOneEndsTheWaitForAnother(t *testing.T) {
	each(t, func(w *world) {
		w.holds(2, `"weight":2`)
		p := w.insists(both(), "queued")
		w.Must(w.Inspector.ForceEvict(w.Ctx, "narrow", w.narrow().Leases[0].ID))
		if e := p.until("refused"); e.Error != "evicted" {
			w.Errorf("it is told %+v", e)
		}
		w.UntilWaiting(0)
	})
}

func cools(body string) string { return strings.Replace(post(body), "/v1/hold", "/v1/cooldown", 1) }

// TestCooldownPausesForAll, tells who wanted it, and ends by itself.
func TestCooldownPausesForAll(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		w.holds(5).conn.Close()
		start := time.Now()
		if got := w.send(cools(`{"name":"s","for_ms":60000.0,"label":"import","pid":7141}`)).next(); got.Status != 200 || got.Event != "paused" {
			w.Fatalf("it is told %+v", got)
		}
		if st := w.Show(); !st.Paused || !strings.HasPrefix(st.PausedBy, "import (") || !strings.HasSuffix(st.PausedBy, ":7141)") {
			w.Errorf("the semaphore is %+v", st.Summary)
		}
		got := w.ask(5, `"wait_ms":0`).wants("refused")
		if got.Status != 429 || got.Error != "busy" || !got.Paused || got.Retry <= 50000 || got.Retry > 61000 {
			w.Errorf("meanwhile it is told %+v", got)
		}
		if e := w.ask(5).wants("granted"); e.Token == 0 {
			w.Errorf("then it is told %+v", e)
		}
		w.Within(start, time.Minute, time.Minute+w.Slack(), "the pause")
	})
}

// TestWholeNumbersInAnyForm that JSON has: languages without whole numbers write 500.0.
func TestWholeNumbersInAnyForm(t *testing.T) {
	for number, want := range map[string]int{"500": 500, "500.0": 500, "5e2": 500, "5.0E+2": 500, "0.5e3": 500, "50000e-2": 500, "0": 0, "-0": 0, "0.0": 0} {
		r, refused := parse([]byte(`{"name":"s","limit":` + number + `,"wait_ms":` + number + `}`))
		if refused != nil || r.limits[0].limit != want || *r.wait != time.Duration(want)*time.Millisecond {
			t.Errorf("%s: %+v, %+v, want %d", number, r, refused, want)
		}
	}
}
