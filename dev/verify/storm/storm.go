// Package storm runs client processes against a redis-server, strikes both with faults
// chosen by a seed, and hands the history to the judge.
package storm

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/dev/verify/promises"
	"github.com/berth-go/berth/dev/verify/worker"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Order describes a run.
type Order struct {
	Scenario Scenario
	Seed     uint64
	Lasts    time.Duration // how long faults strike; the run takes some seconds more
	Workers  int           // client processes at a time
	Program  string        // the worker, run with worker.Env; default: this very binary
	Python   []string      // a command that every fourth client is, if it is set: it speaks the protocol, too
	Out      string        // directory for histories and pictures of a failed run
}

// The semaphores of a run. Only clients with a working network use "queue", so that
// the line is known there and the liveness bounds can be judged.
var (
	seats = []worker.Seat{
		{Mode: worker.Linear, Name: "linear", Limit: 3, TTL: 3 * time.Second},
		{Mode: worker.Mix, Name: "mix", Limit: 5, TTL: 1500 * time.Millisecond},
		{Mode: worker.Brief, Name: "rate", Limit: 5, TTL: time.Second, Rates: ":20/300"},
		{Mode: worker.Late, Name: "late", Limit: 1, TTL: 300 * time.Millisecond},
		{Mode: worker.Late, Name: "later", Limit: 1, TTL: 300 * time.Millisecond},
		{Mode: worker.Late, Name: "latest", Limit: 1, TTL: 600 * time.Millisecond},
		{Mode: worker.Crowd, Name: "crowd", Limit: 2, TTL: time.Second},
		spending, bucket, bucket,
	}
	bucket = worker.Seat{
		Mode: worker.Spend, Name: "bucket", Limit: 12, TTL: 400 * time.Millisecond, Settles: true, Bursts: true, Rates: "api:20/1000+12",
	}
	// spending has a TTL that is shorter than its windows, so that crashes are seen in them.
	spending = worker.Seat{
		Mode: worker.Spend, Name: "spend", Limit: 8, TTL: 400 * time.Millisecond, Settles: true,
		Rates: ":40/1000,api:10/500+15,tokens:60/1000", Then: ":40/1000,api:10/500+15,tokens:45/1000", Apart: true,
	}
	queue    = worker.Seat{Mode: worker.Queue, Name: "queue", Limit: 2, TTL: 1500 * time.Millisecond}
	deaf     = worker.Seat{Mode: worker.Queue, Name: "deaf", Limit: 1, TTL: 1500 * time.Millisecond, Deaf: true}
	line     = worker.Seat{Mode: worker.Line, Name: "line", Limit: 1, TTL: 6 * time.Second}
	slow     = worker.Seat{Mode: worker.Brief, Name: "slow", Limit: 16, TTL: time.Second, Late: 400 * time.Millisecond}
	fair     = worker.Seat{Mode: worker.Tenants, Name: "tenants-fair", Limit: 1, TTL: time.Second, Fair: true}
	fresh    = worker.Seat{Mode: worker.Tenants, Name: "tenants-fair", Limit: 1, TTL: time.Second, Fair: true, New: true}
	shared   = worker.Seat{Mode: worker.Tenants, Name: "tenants", Limit: 1, TTL: time.Second}
	changing = worker.Seat{
		Mode: worker.Timed, Name: "time-rates", Limit: 4, TTL: 6 * time.Second, Rates: ":8/3000", Then: ":4/300",
	}
	// timed are those on which requests mostly wait for time to pass, in several processes.
	timed = []worker.Seat{
		{Mode: worker.Timed, Name: "time-rate", Limit: 4, TTL: 6 * time.Second, Rates: ":4/300"},
		changing,
		{Mode: worker.Timed, Name: "time-lines", Limit: 4, TTL: 6 * time.Second, Rates: ":4/1000", Lines: true},
		{Mode: worker.Timed, Name: "time-bucket", Limit: 6, TTL: 6 * time.Second, Rates: "api:20/1000+8"},
		{
			Mode: worker.Timed, Name: "time-settle", Limit: 6, TTL: 6 * time.Second, Settles: true,
			Rates: ":20/300,tokens:40/1500", Then: ":20/300,tokens:60/1500", Apart: true,
		},
		{Mode: worker.Timed, Name: "time-pause", Limit: 1, TTL: 6 * time.Second, Pauses: true},
		{Mode: worker.Timed, Name: "time-hold", Limit: 1, TTL: 6 * time.Second, MaxHold: time.Second},
	}
	rough = worker.Seat{Mode: worker.Queue, Name: "rough", Limit: 2, TTL: 1500 * time.Millisecond}

	allSeats = slices.Concat(seats, timed, []worker.Seat{queue, deaf, line, slow, shared, fair, rough})
)

const (
	slack = 2 * time.Second // what a busy machine may add to a bound
	calm  = time.Second     // after the last fault
	// patience bounds the wait for something that is bound to happen: it is to find what
	// hangs, not what is slow.
	patience = 2 * time.Minute
)

// storm is a run under way.
type storm struct {
	testing.TB
	Order

	server *redistest.Server
	prefix string
	dir    string
	rng    *rand.Rand
	start  history.Time
	out    *history.Writer
	shim   *shim // the server's clock; nil: the machine's
	disk   string

	after sync.WaitGroup // faults that are still to end

	mu      sync.Mutex
	procs   int             // started so far
	workers map[int]*client // guarded by mu; the living ones
}

// Result is the outcome of a run.
type Result struct {
	*promises.Verdict

	Run  *promises.Run
	Page string // the picture of a failed run; empty if it did not fail
}

// Run runs an order to its end. It does not fail t for the judge's violations.
func Run(t testing.TB, o Order) *Result {
	s := &storm{TB: t, Order: o, dir: t.TempDir(), prefix: "verify", workers: map[int]*client{}}
	s.rng = rand.New(rand.NewPCG(o.Seed, 1))
	var err error
	s.out, err = history.NewWriter(filepath.Join(s.dir, "0.jsonl"), 0)
	s.check(err)
	defer s.out.Close()
	s.server = o.Scenario.start(s)
	wall, at := history.Wall()
	s.start = at
	for range s.Workers {
		s.spawn()
	}
	stop, unwatch := s.forge(), s.watch()
	s.blow()
	stop()
	s.settle()
	end := history.Now()
	s.dismiss()
	unwatch()
	wallEnd, atEnd := history.Wall()
	clock := promises.NewClock([2]time.Duration{wall, wallEnd}, [2]history.Time{at, atEnd})
	clock.Known = s.shim == nil || !s.shim.stepped
	run := promises.Assemble(s.events(), clock)
	run.End = end
	rules := promises.Rules{Clock: clock, Slack: slack, Queue: queue.Name, Deaf: deaf.Name, Shared: "crowd", Line: line.Name + ".", Timed: "time-", Slow: slow.Name, Late: slow.Late, Fair: fair.Name}
	if o.Scenario.Keeps {
		rules.Linear = "linear"
	}
	verdict := promises.Judge(run, rules)
	s.recovered(verdict)
	res := &Result{Verdict: verdict, Run: run}
	if len(verdict.Violations) > 0 {
		res.Page = s.keep(run, verdict)
	}
	return res
}

// check ends the test if err is not nil.
func (s *storm) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// blow strikes with faults until the time is over.
func (s *storm) blow() {
	end := time.Now().Add(s.Lasts)
	for time.Now().Before(end) {
		pause(s.between(s.Scenario.pace/10, s.Scenario.pace))
		f, from := s.pick(), history.Now()
		if e := f.strike(s); e != (history.Event{}) {
			s.note(from, e)
		}
	}
	s.after.Wait()
}

// settle waits for a calm moment after the faults. On a machine so busy that no client
// has been served yet it waits on until one has been, for at most a minute, because a
// run without a grant tests nothing.
func (s *storm) settle() {
	pause(calm)
	granted := func(e history.Event) bool { return e.Kind == history.Return && e.Token > 0 }
	for give := time.Now().Add(time.Minute); !slices.ContainsFunc(s.events(), granted) && time.Now().Before(give); {
		pause(calm)
	}
}

// pick chooses a fault by weight.
func (s *storm) pick() fault {
	var lots []fault
	for _, f := range s.Scenario.faults {
		lots = append(lots, slices.Repeat([]fault{f}, f.weight)...)
	}
	return lots[s.rng.IntN(len(lots))]
}

// between returns a duration from a to b, from the seed.
func (s *storm) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

func pause(d time.Duration) { <-time.After(d) }

// note records a fault that began at from and has just ended, unless e says when it ends.
func (s *storm) note(from history.Time, e history.Event) {
	e.At, e.Until, e.Kind = from, cmp.Or(e.Until, history.Now()), history.Fault
	s.out.Write(e)
}

// events reads all histories.
func (s *storm) events() []history.Event {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.jsonl"))
	s.check(err)
	var all []history.Event
	for _, f := range files {
		events, err := history.Read(f)
		s.check(err)
		all = append(all, events...)
	}
	return all
}

// keep writes the histories and pictures of a failed run to a directory that outlasts
// the test, and returns the path of the page.
func (s *storm) keep(run *promises.Run, v *promises.Verdict) string {
	dir := filepath.Join(s.Out, fmt.Sprintf("%s-%d", s.Scenario.Name, s.Seed))
	if s.Out == "" {
		var err error
		dir, err = os.MkdirTemp("", "berth-verify-")
		s.check(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "history"), os.DirFS(s.dir)); err != nil {
		s.Error(err)
	}
	path, err := writePage(dir, fmt.Sprintf("%s, seed %d", s.Scenario.Name, s.Seed), run, v)
	if err != nil {
		s.Error(err)
	}
	return path
}

// Summary describes the run in a line or two.
func (r *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %d grants, %d unknown; %d leases adopted, %d adopters too late; %d faults; porcupine: %d operations in %d histories, %d left out",
		r.Requests, r.Grants, r.Unknown, r.Adopted, r.TooLate, len(r.Run.Faults), r.Checked, r.Histories, r.Skipped)
	if r.HandOffs > 0 {
		fmt.Fprintf(&b, "; %d hand-offs judged; a permit free for %v", r.HandOffs, r.Free.Round(time.Millisecond))
	}
	if r.Windows > 0 {
		fmt.Fprintf(&b, "; %d windows of a rate and %d grants of a bucket judged, the fullest %.0f %% full; %d settlements", r.Windows, r.Pours, 100*r.Fullest, r.Settled)
	}
	if r.Timed+r.Pauses > 0 {
		fmt.Fprintf(&b, "; %d waits for time and %d pauses judged", r.Timed, r.Pauses)
	}
	if r.Tenants > 0 {
		fmt.Fprintf(&b, "; %d pairs of tenants' requests and %d times in which two tenants wait judged", r.Tenants, r.Shares)
	}
	if r.Turns > 0 {
		fmt.Fprintf(&b, "; %d turns within clients judged", r.Turns)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Measured)) {
		fmt.Fprintf(&b, "; %s for up to %v", what, r.Measured[what].Round(time.Millisecond))
	}
	if r.Healed > 0 {
		fmt.Fprintf(&b, "; %d semaphores had lost one of their keys, and healed", r.Healed)
	}
	return b.String()
}
