package protocol

import (
	"slices"
	"testing"
	"time"
)

// TestShortWay tells a story in which every call takes the short way. The model
// watches, so the story needs no expectations of its own.
func TestShortWay(t *testing.T) {
	t.Parallel()
	all, acquire, release := ids(20), Op{Verb: Acquire, Terms: terms(6)}, Op{Verb: Release}
	narrow := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.QueueLimit = 4 })}
	capped := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.MaxHold = time.Second; t.Weight = 2 })}
	heavy := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.Weight = 6 })}
	calls := [][]Op{
		each(acquire, all[:6]...),
		each(acquire, all[6:9]...),            // all wait
		each(release, all[4], all[1], all[2]), // three hand-offs, to slots 1, 2 and 4 in this order
		append(each(release, all[5], all[0], all[3]), each(acquire, all[9:12]...)...), // slots 0, 3 and 5
		each(narrow, all[12:15]...), // all wait
		append(each(narrow, all[15]), each(narrow, all[16])...),
		each(narrow, all[17], all[18]),                           // the queue is full
		append(each(release, all[6]), each(acquire, all[19])...), // one in, one waits
		each(release, all[7:12]...),                              // room for all who wait
		each(release, all[12:16]...),
		each(capped, all[0], all[1]),
		each(release, all[19], all[0]),
		each(release, all[1]), // the last
		each(acquire, all[2]), // in the same microsecond
		each(heavy, all[3]),
		each(acquire, all[4]), // it would fit, and must not overtake
		each(release, all[2]),
		each(release, all[3]),
		each(release, all[4]),
	}
	tell(t, calls, 0)
	tell(t, calls, time.Millisecond)
}

// TestLoneWay tells stories of a lease that is alone, or nearly so.
func TestLoneWay(t *testing.T) {
	t.Parallel()
	all := ids(3)
	acquire, release := Op{Verb: Acquire, ID: all[0], Terms: terms(3)}, Op{Verb: Release, ID: all[0]}
	on := func(change func(*Terms)) Op { return Op{Verb: Acquire, ID: all[0], Terms: terms(3, change)} }
	tombed := Op{Verb: Release, ID: all[0], Flag: true}
	for name, calls := range map[string][][]Op{
		"twice":               {{acquire}, {release}, {acquire}, {release}},
		"again":               {{acquire}, {acquire}, {release}, {release}},
		"weight":              {{on(func(t *Terms) { t.Weight = 3 })}, {release}},
		"too heavy":           {{on(func(t *Terms) { t.Weight = 4 })}, {release}},
		"MaxHold":             {{on(func(t *Terms) { t.MaxHold = time.Second })}, {release}},
		"a try":               {{on(func(t *Terms) { t.Wait = false })}, {release}},
		"head start":          {{on(func(t *Terms) { t.HeadStart = time.Second })}, {release}},
		"label":               {{on(func(t *Terms) { t.Label = "two words" })}, {release}},
		"tombstone":           {{acquire}, {tombed}, {acquire}},
		"beside a tombstone":  {{Op{Verb: Release, ID: all[1], Flag: true}}, {acquire}, {release}},
		"pinned":              {{acquire}, {Op{Verb: Pin, N: 2}}, {release}, {Op{Verb: Pin, N: -1}}},
		"paused":              {{acquire}, {Op{Verb: Pause, Flag: true}}, {release}, {acquire}},
		"resized":             {{acquire}, {Op{Verb: Resize, N: 1}}, {release}},
		"another id":          {{acquire}, {Op{Verb: Release, ID: all[1]}}, {release}},
		"one of two":          {{acquire}, {Op{Verb: Acquire, ID: all[1], Terms: terms(3)}}, {release}, {Op{Verb: Release, ID: all[1]}}},
		"cancel of a waiter":  {{on(func(t *Terms) { t.Weight = 3 })}, {Op{Verb: Acquire, ID: all[1], Terms: terms(3)}}, {Op{Verb: Release, ID: all[1]}}, {release}},
		"hand-off":            {{on(func(t *Terms) { t.Weight = 3 })}, {Op{Verb: Acquire, ID: all[1], Terms: terms(3)}}, {release}, {Op{Verb: Release, ID: all[1]}}},
		"paused, only waiter": {{Op{Verb: Pause, Flag: true}}, {acquire}, {release}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pause := range []time.Duration{0, time.Millisecond, acquire.Terms.TTL - 1, acquire.Terms.TTL, time.Hour} {
				tell(t, calls, pause)
			}
		})
	}
}

// tell makes the calls, with pauses in between, while the model watches.
func tell(t *testing.T, calls [][]Op, pause time.Duration) {
	t.Helper()
	for _, f := range []form{{}, {keeps: true}} {
		tr, clock := newTrial(t, embedded(t, f)), start
		for _, ops := range calls {
			clock = clock.Add(pause)
			tr.timed(t, event{ops: slices.Clone(ops)}, clock)
		}
	}
}
