package events_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth/internal/events"
)

// journal notes what runs, and holds it up until go on.
type journal struct {
	slog.Handler

	goOn  chan struct{}
	mu    sync.Mutex
	lines []string
}

func newJournal() *journal {
	return &journal{Handler: slog.NewTextHandler(new(bytes.Buffer), nil), goOn: make(chan struct{})}
}

func (j *journal) note(line string) {
	<-j.goOn
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// Handle implements slog.Handler.
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	j.note(line)
	return nil
}

// all returns what has run, once nothing moves any more.
func (j *journal) all() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines
}

// Events run one after the other, in their order, and whoever adds them does not wait.
func TestEventsRunInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, j := new(events.Queue), newJournal()
		log := q.Logger(slog.New(j))
		var want []string
		for range 2 { // the second time there is no goroutine any more
			j.goOn = make(chan struct{})
			for range 100 {
				n := fmt.Sprint(len(want))
				if want = append(want, n); len(want)%2 == 0 {
					log.Info(n)
				} else {
					q.Do(func() { j.note(n) })
				}
			}
			close(j.goOn)
			if got := j.all(); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%v ran", got)
			}
		}
	})
}

// While 1,000 records wait, further ones are dropped. A record tells how many, each time.
func TestDroppedRecordsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, j := new(events.Queue), newJournal()
		log := q.Logger(slog.New(j))
		const most = 1000
		ran := 0
		for _, dropped := range []int{1, 2500} {
			j.goOn = make(chan struct{})
			log.Info("runs")
			synctest.Wait()
			for range most + dropped {
				log.Info("waits")
			}
			q.Do(func() { j.note("an event") }) // never dropped, and does not count
			close(j.goOn)
			got := j.all()[ran:]
			ran += len(got)
			told := fmt.Sprintf("berth: log records were dropped, because a hook or the log's handler took too long records=%d", dropped)
			if len(got) != 1+most+2 || got[most] != "waits" || got[most+1] != told || got[most+2] != "an event" {
				t.Errorf("%d ran after %d were dropped, the last %q", len(got), dropped, got[max(0, len(got)-3):])
			}
		}
	})
}

// What waits does not count the events that are no records.
func TestEventsLeaveRoomForRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, j := new(events.Queue), newJournal()
		for range 3000 {
			q.Do(func() { j.note("an event") })
		}
		q.Logger(slog.New(j)).Info("a record")
		close(j.goOn)
		if got := j.all(); len(got) != 3001 || got[3000] != "a record" {
			t.Errorf("%d ran", len(got))
		}
	})
}

// The logger writes what the other one would, levels, groups and attributes.
func TestLoggerWritesTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out [2]bytes.Buffer
		q := new(events.Queue)
		for i := range out {
			log := slog.New(slog.NewTextHandler(&out[i], nil))
			if i == 1 {
				log = q.Logger(log)
			}
			log.Debug("not enabled")
			log.With("a", 1).WithGroup("g").With("b", 2).Warn("said", "c", 3)
		}
		synctest.Wait()
		if out[0].String() != out[1].String() || !strings.Contains(out[1].String(), "a=1 g.b=2 g.c=3") {
			t.Errorf("it wrote %q, not %q", &out[1], &out[0])
		}
	})
}

// Wait returns when all has run, and in any case after the time that it is given.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q events.Queue
		for _, lasts := range []time.Duration{0, 900 * time.Millisecond, time.Hour} {
			if lasts > 0 {
				q.Do(func() { <-time.After(lasts) })
			}
			start := time.Now()
			q.Wait(time.Second)
			if took := time.Since(start); took != min(lasts, time.Second) {
				t.Errorf("an event lasts for %v: waited for %v", lasts, took)
			}
			<-time.After(lasts)
		}
	})
}
