package protocol

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The property: whatever processes ask, in whatever order and at whatever time,
// the script answers, stores and publishes what the model does, and keeps its
// promises.
//
// More than the default: go test -run Model -rapid.checks=20000

// event is one call of one process, some time after the one before.
type event struct {
	pause   time.Duration
	process int
	late    bool // the call comes after its bound
	ops     []Op
}

// span draws one of a few durations; few, so that deadlines meet.
func span(choices ...time.Duration) *rapid.Generator[time.Duration] {
	return rapid.SampledFrom(choices)
}

// shared makes a generator safe for tests that run at the same time: rapid makes its
// name when it is first asked for, and reads it elsewhere without a lock.
func shared[V any](g *rapid.Generator[V]) *rapid.Generator[V] {
	_ = g.String()
	return g
}

// genID draws ids of any process, whichever uses them then: so there are repeats,
// late copies, and strangers.
var genID = shared(rapid.Custom(func(t *rapid.T) string {
	return fmt.Sprintf("s%d.%d", rapid.IntRange(0, processes-1).Draw(t, "of"), rapid.IntRange(1, 4).Draw(t, "id"))
}))

var genTerms = shared(rapid.Custom(func(t *rapid.T) *Terms {
	tenant, share := genTenant.Draw(t, "tenant"), 0
	if tenant != "" {
		share = rapid.SampledFrom([]int{0, 0, 2, 100}).Draw(t, "share")
	}
	return &Terms{
		Tenant: tenant, Share: share,
		Wait:       rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "wait"),
		Weight:     rapid.SampledFrom([]int{1, 1, 1, 2, 3, 4}).Draw(t, "weight"),
		TTL:        span(30*time.Second, 30*time.Second, 5*time.Millisecond, 40*time.Millisecond, 2*time.Second).Draw(t, "ttl"),
		Heartbeat:  span(15*time.Second, 15*time.Second, 7*time.Millisecond, 40*time.Millisecond).Draw(t, "hb"),
		HeadStart:  span(0, 0, 0, time.Millisecond, 5*time.Millisecond, time.Hour).Draw(t, "start"),
		QueueLimit: rapid.SampledFrom([]int{100, 100, 100, 0, 1, 2}).Draw(t, "qlimit"),
		MaxHold:    span(0, 0, 0, 20*time.Millisecond, 10*time.Second).Draw(t, "maxhold"),
		Limit:      rapid.SampledFrom([]int{3, 3, 3, 3, 3, 0, 1, 2, 4, 6}).Draw(t, "limit"),
		Label:      rapid.SampledFrom([]string{"", "", "a label", "h 1 2"}).Draw(t, "label"),
		Rates:      genRates.Draw(t, "rates"),
		Costs:      rapid.SampledFrom([]Costs{"", "", "", ":1", ":3", ":5", "t:0", "t:2", "t:6", ":1,t:4", "x:9"}).Draw(t, "costs"),
	}
}))

// genTenant draws one of few tenants; none, most of the time.
var genTenant = shared(rapid.SampledFrom([]string{"", "", "", "acme", "acme", "b;share=9;tenant=x", "ü"}))

// genRates draws one of few sets of rates, so that most calls leave it as it is; none, most of the time.
var genRates = shared(rapid.SampledFrom([]Rates{
	"", "", "", "", "", "", ":4/20", ":4/20", ":4/20", ":2/3000", ":5/3600000", ":5/20+3", ":1/3600000+4", ":4/25", ":3/30000", ":2/299",
	":4/20,:5/3600000", ":4/20,t:6/3000", ":4/20,t:6/3000", "t:3/20+7", "t:5/3000", ":2/3000,t:1/20+6,t:9/10000,x:9/60000",
}))

// lots are the verbs, the likelier the more often.
const lots = "AAAAAAAAAAAHHLLLLLRRMMEDPZQQUWSSSS"

var genOp = shared(rapid.Custom(func(t *rapid.T) Op {
	op := Op{Verb: Verb(lots[rapid.IntRange(0, len(lots)-1).Draw(t, "verb")])}
	if op.Verb.named() {
		op.ID = genID.Draw(t, "id")
	}
	switch op.Verb {
	case Acquire:
		op.Terms = genTerms.Draw(t, "terms")
	case Move:
		op.To = genID.Draw(t, "to")
		op.TTL = span(0, 0, 30*time.Second, 40*time.Millisecond).Draw(t, "ttl")
	case Heartbeat:
		op.TTL = span(15*time.Second, 5*time.Millisecond, 40*time.Millisecond, 0).Draw(t, "ttl")
		op.Flag = rapid.Bool().Draw(t, "places")
	case Renew:
		op.TTL = span(15*time.Second, 5*time.Millisecond, 40*time.Millisecond).Draw(t, "ttl")
	case Settle:
		op.Costs = rapid.SampledFrom([]Costs{"0", ":0", ":1", ":2", ":6", "t:0", "t:1", "t:9", ":1,t:2", "x:1"}).Draw(t, "costs")
	case Release:
		op.Costs = rapid.SampledFrom([]Costs{"", "", "", "", "0", "t:1", ":2"}).Draw(t, "costs")
		op.Flag = rapid.SampledFrom([]bool{false, false, true}).Draw(t, "flag")
	case Evict:
		op.Flag = rapid.SampledFrom([]bool{false, false, true}).Draw(t, "flag")
	case Pause:
		op.Flag = rapid.SampledFrom([]bool{false, false, true}).Draw(t, "paused")
	case SetRates:
		op.Rates, op.Flag = genRates.Draw(t, "rates"), rapid.SampledFrom([]bool{false, false, true}).Draw(t, "pin")
		if unit := rapid.SampledFrom([]string{"*", "*", "", "t"}).Draw(t, "unit"); unit != "*" {
			op.Unit, op.Only = unit, true
			all := slices.DeleteFunc(op.Rates.All(), func(r Rate) bool { return r.Unit != unit })
			op.Rates, _ = JoinRates(all[:min(len(all), 1)]...) // with those of other units not more than four
		}
	case Cool:
		op.TTL = span(time.Millisecond, 20*time.Millisecond, time.Second, time.Hour).Draw(t, "for")
		op.Who = rapid.SampledFrom([]string{"", "ann@ops-1", "a b\n"}).Draw(t, "who")
	case Resize:
		op.N = rapid.IntRange(1, 6).Draw(t, "limit")
	case Pin:
		op.N = rapid.SampledFrom([]int{-1, -1, -1, 0, 1, 3, 6}).Draw(t, "pin")
	}
	return op
}))

// genBatch draws the operations of a call, none of an id that another one names;
// some have the same terms.
var genBatch = shared(rapid.Custom(func(t *rapid.T) []Op {
	ops := rapid.SliceOfN(genOp, 0, 5).Draw(t, "ops")
	if len(ops) > 0 && ops[0].Verb.named() && ops[0].Verb != Move {
		for range rapid.SampledFrom([]int{0, 0, 0, 1, 3}).Draw(t, "more of it") {
			op := ops[0]
			op.ID = genID.Draw(t, "id")
			ops = append([]Op{op}, ops...)
		}
	}
	return distinct(ops)
}))

// distinct leaves out operations that name an id again.
func distinct(ops []Op) (out []Op) {
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.ID] || seen[op.To] || op.ID == op.To && op.ID != "" {
			continue
		}
		out = append(out, op)
		seen[op.ID], seen[op.To] = op.ID != "", op.To != ""
		seen[""] = false
	}
	return out
}

// genNear draws one of few ids, so that releases find what they release.
var genNear = shared(rapid.SampledFrom(ids(6)))

// genCalm draws what processes send most of the time: releases, then acquires on
// ordinary terms.
var genCalm = shared(rapid.Custom(func(t *rapid.T) (ops []Op) {
	if rapid.IntRange(0, 5).Draw(t, "renew") == 0 {
		return []Op{{Verb: Renew, ID: genNear.Draw(t, "id"), TTL: span(30*time.Second, 20*time.Second, 2*time.Minute).Draw(t, "ttl")}}
	}
	for _, id := range rapid.SliceOfN(genNear, 0, 3).Draw(t, "release") {
		ops = append(ops, Op{Verb: Release, ID: id})
	}
	change := func(t *Terms) {}
	if weight := rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "weight"); weight > 1 {
		change = func(t *Terms) { t.Weight = weight }
	}
	for _, id := range rapid.SliceOfN(genNear, 0, 3).Draw(t, "acquire") {
		ops = append(ops, Op{Verb: Acquire, ID: id, Terms: terms(3, change)})
	}
	return distinct(ops)
}))

// genEvents draws a whole life.
func genEvents(calm bool, pauses ...time.Duration) *rapid.Generator[[]event] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		e := event{process: rapid.IntRange(0, processes-1).Draw(t, "process"), pause: span(pauses...).Draw(t, "pause")}
		if calm {
			e.ops = genCalm.Draw(t, "batch")
			return e
		}
		e.late = rapid.IntRange(0, 15).Draw(t, "late") == 15
		e.ops = genBatch.Draw(t, "batch")
		return e
	}), 1, 40)
}

// trial drives one rig and one model through the same events.
type trial struct {
	*rig
	model *model
	judge judge
	heads lookouts
	last  dump
	said  said
}

// said is what a call answered and published.
type said struct {
	reply   Reply
	results []Result
	notes   map[string][]string
}

func newTrial(t failer, r *rig) *trial {
	t.Helper()
	r.reset(t)
	return &trial{rig: r, model: newModel(), heads: lookouts{}, last: r.dump(t)}
}

// timed makes one call at a time that the test has set.
func (tr *trial) timed(t failer, e event, clock time.Time) {
	t.Helper()
	tr.mr.SetTime(clock)
	c := call{ops: e.ops}
	c.now, c.us = at(clock)
	tr.elapse(t, c.now)
	if e.late {
		c.notAfter = c.now - 1
	}
	tr.call(t, e.process, c)
}

// elapse empties the model when the keys have vanished by themselves.
func (tr *trial) elapse(t failer, now int64) {
	t.Helper()
	if !tr.model.exists {
		return
	}
	if state := tr.last.state(t); state.Lapses && now >= state.Till {
		*tr.model = *newModel()
		tr.last, tr.heads = dump{}, lookouts{}
	}
}

// next returns "nearest" as it is stored.
func (tr *trial) next(t failer) int64 {
	t.Helper()
	if !tr.last.exists() {
		return 0
	}
	return tr.last.state(t).Next
}

// call makes one call and compares everything.
func (tr *trial) call(t failer, process int, c call) {
	t.Helper()
	store := tr.stores[process]
	c.owner = store.owner
	c.next = tr.next(t)
	ops := append([]Op(nil), c.ops...)
	reply, err := store.Do(context.Background(), tr.key, c.notAfter, ops)
	step, ok := tr.model.run(c)
	if !ok {
		wantKind(t, err, ErrRefused, nil)
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", opsString(ops), err)
	}
	tr.compare(t, step, reply, resultsOf(ops), tr.notes(t))
}

func (tr *trial) compare(t failer, s *step, reply Reply, got []Result, notes map[string][]string) {
	t.Helper()
	d := tr.dump(t)
	compareReply(t, s, reply, got)
	compareNotes(t, s, notes)
	compareDump(t, s.model, d)
	compareLapse(t, tr.rig, s.model, s.now, d)
	compareSnapshot(t, tr.rig, s.model)
	tr.judge.check(t, s.call, tr.last, d)
	tr.said = said{reply, got, notes}
	tr.heads.checkHead(t, s, tr.last, tr.said)
	tr.last = d
}

// TestModel runs the model beside the script on an embedded store, where time is
// exact.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		for _, calm := range []bool{false, true} {
			t.Run(fmt.Sprintf("keeps=%v,calm=%v", keeps, calm), func(t *testing.T) {
				t.Parallel()
				r := embedded(t, keeps)
				rapid.Check(t, func(t *rapid.T) { checkEmbedded(t, r, calm) })
			})
		}
	}
}

func checkEmbedded(t *rapid.T, r *rig, calm bool) {
	events := genEvents(
		calm, 0, 0, 0, time.Microsecond, 300*time.Microsecond, time.Millisecond, 3*time.Millisecond,
		20*time.Millisecond, time.Second, 9*time.Second, 31*time.Second, 2*time.Minute,
	).Draw(t, "events")
	clock := start
	r.mr.SetTime(clock)
	tr := newTrial(t, r)
	for _, e := range events {
		clock = clock.Add(e.pause)
		tr.timed(t, e, clock)
	}
}
