package agent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestRedisAwayAndBack: refused while it is away, and granted again after it.
func TestRedisAwayAndBack(t *testing.T) {
	each(t, func(w *world) {
		p := w.holds(2)
		w.peer.Net.Down()
		e := w.ask(2).next()
		if e.Status != http.StatusServiceUnavailable || e.Error != "redis" || e.header.Get("Retry-After") != "1" {
			w.Errorf("without Redis: %+v", e)
		}
		if status, _ := w.get("/healthz"); status != http.StatusServiceUnavailable {
			w.Errorf("health without Redis: %d", status)
		}
		w.peer.Net.Up()
		w.holds(2)
		if status, text := w.get("/healthz"); status != http.StatusOK || !strings.Contains(text, "ok") {
			w.Errorf("health with Redis: %d, %s", status, text)
		}
		p.conn.Close()
		w.untilHeld(1)
	})
}

// TestWaitOutlastsAnOutage that has begun before it, as "berth run -w" does.
func TestWaitOutlastsAnOutage(t *testing.T) {
	each(t, func(w *world) {
		w.holds(2).conn.Close() // Redis has answered before
		w.untilHeld(0)
		w.peer.Net.Down()
		p := w.ask(2, `"wait_ms":600000`)
		<-time.After(8 * time.Second) // longer than the library waits
		w.peer.Net.Up()
		p.wants("granted")
	})
}

// TestWaitThatRedisRefuses ends at its time, or soon if it has none, and says what to do. Who stands in
// the queue outlasts it.
func TestWaitThatRedisRefuses(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		holder, waiter := w.holds(1), w.waits(1)
		full := w.peer.Net.Inject(redistest.Rule{
			Match: func(c redistest.Command) bool { return redistest.IsScript(c) && strings.Contains(c[3], "other") },
			Fault: redistest.Refuse, Times: -1, Error: "OOM command not allowed when used memory > 'maxmemory'.",
		})
		for _, c := range []struct {
			name, fields string
			after        time.Duration
		}{
			{"other1", ``, 500 * time.Millisecond},
			{"other2", `,"wait_ms":0`, 500 * time.Millisecond},
			{"other3", `,"wait_ms":1000`, time.Second},
			{"other4", `,"wait_ms":8000`, 8 * time.Second},
		} {
			start := time.Now()
			got := w.send(post(fmt.Sprintf(`{"name":%q,"limit":1%s}`, c.name, c.fields))).next()
			if got.Status != http.StatusServiceUnavailable || got.Error != "redis" || got.Retry == 0 ||
				!strings.HasPrefix(got.Message, "redis refused: ") || !strings.Contains(got.Message, "raise maxmemory") {
				w.Errorf("%s: it is told %+v", c.fields, got)
			}
			w.Within(start, c.after, c.after+100*time.Millisecond, "the refusal"+c.fields)
		}
		start := time.Now()
		if got := w.send(cools(`{"name":"other5","for_ms":1000}`)).next(); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Message, "raise maxmemory") {
			w.Errorf("a cooldown is told %+v", got)
		}
		w.Within(start, 500*time.Millisecond, 600*time.Millisecond, "the refusal of a cooldown")
		full.Stop()
		w.insists(post(`{"name":"other","limit":1}`), "granted")
		w.Must(holder.conn.Close())
		waiter.wants("granted")
	})
}

// TestWaitThatRedisDoesNotAnswer ends at its time, and says that it was Redis.
func TestWaitThatRedisDoesNotAnswer(t *testing.T) {
	each(t, func(w *world) {
		w.holds(2)
		held := w.peer.Net.Inject(redistest.Rule{Fault: redistest.DelayReply, Times: -1})
		defer func() {
			held.Stop()
			held.Release()
		}()
		for _, wait := range []time.Duration{time.Second, 3 * time.Second, 8 * time.Second} {
			start := time.Now()
			ask := func() event { return w.ask(2, fmt.Sprintf(`"wait_ms":%d`, wait.Milliseconds())).next() }
			e := ask()
			for tries := 10; !w.Exact && e.Error == "timeout" && tries > 0; tries-- {
				e = ask() // a slow machine may have heard only now of what came before
			}
			if e.Status != http.StatusServiceUnavailable || e.Error != "redis" || !strings.Contains(e.Message, "redis has not answered for") {
				w.Errorf("after %v it is told %+v", wait, e)
			}
			if w.Exact {
				w.Within(start, wait, wait+time.Second, "the wait")
			}
		}
	})
}

// TestHealthTellsThatRedisRefuses the agent's user, whether somebody asks for a permit or not.
func TestHealthTellsThatRedisRefuses(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	const user = "agent-rotates"
	password := func(p string) {
		e.Must(e.Redis.Do(e.Ctx, "ACL", "SETUSER", user, "on", "resetpass", ">"+p, "~*", "&*", "+@all").Err())
		e.Must(e.Redis.Do(e.Ctx, "CLIENT", "KILL", "USER", user).Err())
	}
	e.Must(e.Redis.Do(e.Ctx, "ACL", "SETUSER", user, "on", ">old", "~*", "&*", "+@all").Err())
	e.Options.Username, e.Options.Password = user, "old"
	e.Options.MaxRetries = -1 // as the command has it
	w := newWorld(e, Options{})
	w.holds(1).conn.Close()
	if status, text := w.shown("/healthz"); status != http.StatusOK {
		w.Errorf("the health is %d, %s", status, text)
	}
	password("new")
	if status, text := w.shown("/healthz"); status != http.StatusForbidden || !strings.Contains(text, "WRONGPASS") || !strings.Contains(text, "check user and password") {
		w.Errorf("with another password the health is %d, %s", status, text)
	}
	if e := w.refused(asks(1)); e.Status != http.StatusForbidden {
		w.Errorf("it is told %+v", e)
	}
	if away, err := Check(w.Ctx, w.path); err != nil || !strings.Contains(away, "WRONGPASS") {
		w.Errorf("the check says %q, %v", away, err)
	}
	password("old")
	if status, text := w.shown("/healthz"); status != http.StatusOK {
		w.Errorf("when it is right again, the health is %d, %s", status, text)
	}
	w.holds(1)
}

// TestAWaiterOutlastsAnOutage, and has its place after it.
func TestAWaiterOutlastsAnOutage(t *testing.T) {
	each(t, func(w *world) {
		lease := w.Hold(w.Peer().Sem(1))
		p := w.waits(1)
		w.peer.Net.Down()
		<-time.After(time.Second)
		w.peer.Net.Up()
		w.Release(lease)
		p.wants("granted")
	})
}
