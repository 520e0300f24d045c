package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestStopEndsEverything in order: no new grants, waiters leave, holders are asked to stop and
// lose the permit after the grace.
func TestStopEndsEverything(t *testing.T) {
	each(t, func(w *world) {
		keeps, ends := w.holds(2), w.holds(2)
		waiter := w.waits(2)
		start := time.Now()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.stop()
		}()
		for _, p := range []*program{keeps, ends} {
			if e := p.wants("stop"); e.Reason != "shutdown" || e.Remaining != 10000 {
				w.Errorf("a holder is told %+v", e)
			}
		}
		if e := waiter.wants("refused"); e.Status != 503 || e.Error != "stopping" {
			w.Errorf("a waiter is told %+v", e)
		}
		e := w.ask(3).next()
		if e.Status != 503 || e.Error != "stopping" || e.header.Get("Retry-After") != "1" {
			w.Errorf("a newcomer is told %+v", e)
		}
		if status, _ := w.get("/healthz"); status != 503 {
			w.Errorf("the health is %d", status)
		}
		ends.conn.Close()
		w.untilHeld(1)
		if e := keeps.wants("lost"); e.Reason != "shutdown" {
			w.Errorf("after the grace it is told %+v", e)
		}
		w.Within(start, 10*time.Second, 12*time.Second, "the grace")
		<-stopped
		w.Idle()
	})
}

// TestDrainServesWhoIsThere: those who wait and hold go on, nobody else comes, and the agent ends with
// the last of them.
func TestDrainServesWhoIsThere(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		w := newWorld(e, Options{Drain: time.Hour, Grace: 10 * time.Second})
		holder, waiter := w.holds(1), w.waits(1)
		idle := w.keptAlive() // as those of an HTTP library are
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.stop()
		}()
		w.untilNobodyListens()
		if status := idle("POST", "/v1/hold", `{"name":"s"}`); status != http.StatusServiceUnavailable {
			w.Errorf("a request on an open connection is answered with %d", status)
		}
		holder.conn.Close()
		waiter.wants("granted")
		select {
		case <-stopped:
			w.Error("the agent has ended while a permit is held")
		default:
		}
		waiter.conn.Close()
		testenv.Receive(w, "end of the agent", stopped)
		w.Idle()
	})
}

// TestDrainHasAnEnd: after it the agent stops as without it.
func TestDrainHasAnEnd(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{Drain: time.Minute, Grace: 10 * time.Second})
		holder, waiter := w.holds(1), w.waits(1)
		start := time.Now()
		go w.stop()
		waiter.wants("refused")
		holder.wants("stop")
		w.Within(start, time.Minute, time.Minute+time.Second, "the drain")
		holder.wants("lost")
		w.Within(start, time.Minute+10*time.Second, time.Minute+11*time.Second, "the grace")
	})
}

// TestAgentLogsOutagesAndLosses, and nothing of what clients do themselves.
func TestAgentLogsOutagesAndLosses(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		lines := make(chan string, 100)
		w := newWorld(e, Options{Log: func(format string, args ...any) { lines <- fmt.Sprintf(format, args...) }})
		says := func(want string) {
			e.Helper()
			if got := testenv.Receive(e, "line of the log", lines); !regexp.MustCompile("^" + want + "$").MatchString(got) {
				e.Errorf("the log says %q, want %q", got, want)
			}
		}
		w.holds(3).conn.Close()
		silent := w.holds(3, `"beat_ms":100`, `"label":"import"`)
		says(`semaphore "s": "import" has lost its permit: the client was silent for longer than its beat_ms`)
		silent.wants("lost")
		w.holds(3, `"ttl_ms":30000`, `"label":"report"`)
		w.peer.Net.Down()
		says(`redis has not answered for [1-9](\.\d)?s: .*`)
		<-time.After(time.Minute)
		w.peer.Net.Up()
		says(`semaphore "s": "report" has lost its permit: .*not renewed in time.*`)
		w.holds(3)
		says(`redis answers again, after \d+m?\d*s`)
		select {
		case more := <-lines:
			e.Errorf("the log says %q, too", more)
		default:
		}
	})
}

// TestStopIsQuickWithoutHolders: the grace is theirs.
func TestStopIsQuickWithoutHolders(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{Grace: time.Hour})
		w.holds(1).conn.Close()
		w.untilHeld(0)
		start := time.Now()
		w.stop()
		w.Within(start, 0, time.Second, "the end")
	})
}

// TestOperatorsSeeThePrograms, and not their agent: what they say of themselves, and else who is at
// the other end of the socket.
func TestOperatorsSeeThePrograms(t *testing.T) {
	each(t, func(w *world) {
		const said = 7141
		w.holds(9, `"label":"import"`, fmt.Sprintf(`"pid":%d`, said))
		w.waits(1, fmt.Sprintf(`"pid":%d`, said+1))
		if st := w.Show(); st.Leases[0].Label != "import" || st.Leases[0].PID != said || st.Queue[0].PID != said+1 {
			w.Errorf("the holder is %+v, the waiter %+v", st.Leases[0], st.Queue[0])
		}
		h := w.lease()
		if want := fmt.Sprintf("agent=%d", os.Getpid()); !strings.HasPrefix(h.Extra, want) || h.Host == "" || h.Client == "" {
			w.Errorf("it is on %q with %q, and more of it is %q, want %q", h.Host, h.Client, h.Extra, want)
		}
		w.Must(w.Inspector.Evict(w.Ctx, testenv.Name, w.Show().Queue[0].ID))
		w.holds(9)
		name, pid := "agent", 0
		if !w.Exact && runtime.GOOS == "linux" {
			comm, err := os.ReadFile("/proc/self/comm")
			w.Must(err)
			name, pid = strings.TrimSpace(string(comm)), os.Getpid()
		}
		if h := w.Show().Leases[1]; h.Label != name || h.PID != pid {
			w.Errorf("of one that says nothing they see %q, %d, want %q, %d", h.Label, h.PID, name, pid)
		}
	})
}

// TestSemaphoresAsTheCommandsShowThem: the same JSON.
func TestSemaphoresAsTheCommandsShowThem(t *testing.T) {
	each(t, func(w *world) {
		if status, text := w.shown("/v1/semaphores"); status != 200 || strings.TrimSpace(text) != "[]" {
			w.Errorf("without any: %d, %s", status, text)
		}
		w.holds(1, `"label":"import"`)
		w.waits(1)
		var list []berthadmin.Summary
		if _, text := w.shown("/v1/semaphores"); json.Unmarshal([]byte(text), &list) != nil || len(list) != 1 || list[0].Waiting != 1 {
			w.Errorf("the list is %s", text)
		}
		var state berthadmin.State
		_, text := w.shown("/v1/semaphores/" + testenv.Name)
		if json.Unmarshal([]byte(text), &state) != nil || len(state.Leases) != 1 || state.Leases[0].Label != "import" {
			w.Errorf("the semaphore is %s", text)
		}
		w.insists(post(`{"name":"a/b c"}`), "granted")
		for _, path := range []string{"a/b%20c", "a%2Fb%20c"} {
			if status, text := w.shown("/v1/semaphores/" + path); status != 200 || !strings.Contains(text, `"name":"a/b c"`) {
				w.Errorf("%s: %d, %s", path, status, text)
			}
		}
	})
}

// TestMetricsCount what clients get, and have no names in them.
func TestMetricsCount(t *testing.T) {
	each(t, func(w *world) {
		p, q := w.holds(1), w.waits(1)
		if e := w.refused(asks(1, `"wait_ms":0`)); e.Error != "busy" {
			w.Errorf("got %+v", e)
		}
		for metric, want := range map[string]float64{
			"berth_agent_holding": 1, "berth_agent_waiting": 1,
			`berth_agent_requests_total{outcome="granted"}`: 1, `berth_agent_requests_total{outcome="busy"}`: 1,
		} {
			if got := w.count(metric); got != want {
				w.Errorf("%s is %v, want %v", metric, got, want)
			}
		}
		p.conn.Close()
		q.wants("granted")
		q.conn.Close()
		w.untilHeld(0)
		w.stop()
		for metric, want := range map[string]float64{
			"berth_agent_holding": 0, "berth_agent_waiting": 0, "berth_agent_connections": 0,
		} {
			if got := w.count(metric); got != want {
				w.Errorf("at the end %s is %v, want %v", metric, got, want)
			}
		}
	})
}

// TestAThousandHolds in one agent, of one semaphore and of many, go as they came.
func TestAThousandHolds(t *testing.T) {
	each(t, func(w *world) {
		const limit, many, names = 300, 1000, 50
		all := make([]*program, many)
		var asked sync.WaitGroup
		for i := range all {
			asked.Go(func() {
				name := testenv.Name
				if i%2 == 1 {
					name = fmt.Sprintf("other-%d", i%names)
				}
				all[i] = w.insists(post(fmt.Sprintf(`{"name":%q,"limit":%d,"ttl_ms":600000}`, name, limit)), "queued", "granted")
			})
		}
		asked.Wait()
		w.Until("the limit", func(s *berthadmin.State) bool { return s.InUse == limit && s.Waiting == many/2-limit })
		for _, p := range all {
			p.conn.Close()
		}
		w.Until("the end", func(s *berthadmin.State) bool { return s.InUse+s.Waiting == 0 })
		w.stop()
		if list, err := testenv.Listed(w.Inspector.List(w.Ctx)); len(list) > 0 || err != nil {
			w.Errorf("left are %v, %v", list, err)
		}
	})
}

// FuzzRequest: no body makes the agent do anything but read it or refuse it.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{`{"name":"a","limit":5,"wait_ms":0}`, `{"name":"a","ttl_ms":10,"label":"x"}`, `[]`, `{"name":1}`, "\xff", `{"a":{"b":[1,2,{}]}}`, `{"all":[{"name":"a","limit":5e0},{"name":"b"}],"wait_ms":1.0}`, `{"all":[{}]}`} {
		f.Add([]byte(s))
	}
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	f.Cleanup(func() { rdb.Close() })
	client, err := berth.New(rdb)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, refused := parse(body)
		if (r == nil) == (refused == nil) {
			t.Fatalf("%q: %+v and %+v", body, r, refused)
		}
		if refused != nil {
			if refused.Status != 400 || len(refused.Fields) > mostWrong || len(refused.bytes()) > 20*(64*6+200) {
				t.Errorf("%q: %+v", body, refused)
			}
			return
		}
		for _, l := range r.limits {
			if _, err := client.Semaphore(l.name, l.limit, berth.Label(r.label)); err != nil {
				t.Errorf("%q was accepted, and is %v", body, err)
			}
		}
	})
}
