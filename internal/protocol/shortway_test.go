package protocol

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/redistest"
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

	// Of nobody's free slots, none are kept.
	frozen := [][]Op{
		each(Op{Verb: Acquire, Terms: terms(3)}, all[:5]...),
		{{Verb: Resize, N: 0}},
		each(release, all[0], all[1]),
		each(release, all[2]),
	}
	tell(t, frozen, time.Millisecond)
}

// TestSlotsOfAnyLength: of one, two and three digits, freed in one call or before,
// and given out in order, lowest first.
func TestSlotsOfAnyLength(t *testing.T) {
	t.Parallel()
	all, release := ids(141), Op{Verb: Release}
	ask := func(weight int, names ...string) []Op {
		return each(Op{Verb: Acquire, Terms: terms(130, func(t *Terms) { t.Weight = weight })}, names...)
	}
	calls := [][]Op{
		ask(1, all[:130]...),
		each(release, all[7], all[42], all[105], all[3]),
		// Slots 1, 3, 7 and 42; then 5, 77, 105 and 120.
		append(each(release, all[1], all[120], all[77]), ask(1, all[130:134]...)...),
		append(each(release, all[5]), ask(1, all[134:138]...)...),
		// A heavy one waits, and two behind it; the three get slots 10, 12 and 80.
		ask(3, all[138]),
		ask(1, all[139], all[140]),
		each(release, all[12], all[80]),
		each(release, all[85], all[10], all[90]),
		// From the end; then slots 0 and 85.
		each(release, append(all[:0:0], all[125:]...)...),
		append(each(release, all[0], all[119], all[124], all[123]), ask(1, all[1], all[3])...),
		// Slots 11, 90 and 101.
		each(release, all[101], all[11]),
		ask(1, all[5], all[7], all[10]),
	}
	tell(t, calls, 0)
	tell(t, calls, time.Millisecond)

	rest := [][]Op{ask(1, all[:12]...), each(release, all[:12]...), ask(1, all[12:14]...)}
	tell(t, rest, 0)
	tell(t, rest, time.Millisecond)
}

// cast are the ids of the stories below; ask and the others make calls of one of them.
var cast = ids(4)

func ask(id, limit, weight int, change ...func(*Terms)) []Op {
	change = append(change, func(t *Terms) { t.Weight = weight })
	return []Op{{Verb: Acquire, ID: cast[id], Terms: terms(limit, change...)}}
}

func back(id int) []Op  { return []Op{{Verb: Release, ID: cast[id]}} }
func renew(id int) []Op { return []Op{{Verb: Renew, ID: cast[id], TTL: terms(1).TTL}} }
func tomb(id int) []Op  { return []Op{{Verb: Release, ID: cast[id], Flag: true}} }

func capped(t *Terms) { t.MaxHold = time.Second }

// TestLoneWay tells stories of a lease that is alone, folded or not, or nearly so.
func TestLoneWay(t *testing.T) {
	t.Parallel()
	acquire, release := ask(0, 3, 1), back(0)
	tellAll(t, map[string][][]Op{
		"twice":              {acquire, release, acquire, release},
		"again":              {acquire, acquire, release, release},
		"weight":             {ask(0, 3, 3), back(0)},
		"too heavy":          {ask(0, 3, 4), back(0)},
		"MaxHold":            {ask(0, 3, 1, capped), back(0)},
		"a try":              {ask(0, 3, 1, func(t *Terms) { t.Wait = false }), back(0)},
		"head start":         {ask(0, 3, 1, func(t *Terms) { t.HeadStart = time.Second }), back(0)},
		"label":              {ask(0, 3, 1, func(t *Terms) { t.Label = "two words" }), back(0)},
		"tombstone":          {acquire, tomb(0), acquire},
		"beside a tombstone": {tomb(1), acquire, release},
		"pinned":             {acquire, {{Verb: Pin, N: 2}}, release, {{Verb: Pin, N: -1}}},
		"paused":             {acquire, {{Verb: Pause, Flag: true}}, release, acquire},
		"resized":            {acquire, {{Verb: Resize, N: 1}}, release},
		"another id":         {acquire, back(1), release},
		"renewed":            {acquire, renew(0), renew(0), release},
		"renewed for longer": {acquire, {{Verb: Renew, ID: cast[0], TTL: time.Hour}}, renew(0), release},
		"renewed for less":   {acquire, {{Verb: Renew, ID: cast[0], TTL: time.Second}}, renew(0), release},
		"kept":               {acquire, renew(0), renew(0), renew(0), renew(0), release},
		"another renewed":    {acquire, renew(1), release},
		"renewed and shared": {acquire, renew(0), ask(1, 3, 1), renew(0), release, renew(1), back(1)},
		"gone, renewed":      {acquire, release, renew(0)},
		"a heartbeat":        {acquire, {{Verb: Heartbeat, ID: cast[0], TTL: time.Second, Flag: true}}, release},
		"evicted":            {acquire, {{Verb: Evict, ID: cast[0], Flag: true}}, acquire},
		"to be evicted":      {acquire, {{Verb: Evict, ID: cast[0]}}, renew(0), release},
		"more at once":       {acquire, append(back(0), acquire...), append(renew(0), renew(1)...), release},
		"nothing":            {{}, acquire, {}, release, {}},
		"one of two":         {acquire, ask(1, 3, 1), release, back(1)},
		"one for another":    {acquire, append(back(0), ask(1, 3, 1)...), back(1)},
		"one, and a tomb":    {acquire, tomb(2), append(back(0), ask(1, 3, 1)...), renew(1), back(1)},
	})
}

// TestCrowdsWay tells stories of leases for which others wait.
func TestCrowdsWay(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string][][]Op{
		"hand-off":                 {ask(0, 1, 1), ask(1, 1, 1), back(0), back(1)},
		"hand-off among many":      {ask(0, 2, 1), ask(1, 2, 1), ask(2, 2, 1), ask(3, 2, 1), back(1), back(0), back(2), back(3)},
		"hand-off to a lighter":    {ask(0, 3, 3), ask(1, 3, 1), ask(2, 3, 1), back(0)},
		"hand-off to a capped one": {ask(0, 1, 1), ask(1, 1, 1, capped), ask(2, 1, 1), back(0), back(1)},
		"room for another":         {ask(0, 3, 2), ask(1, 3, 2), ask(2, 3, 1), back(0)},
		"a lower slot is free":     {ask(0, 4, 1), ask(1, 4, 1), ask(2, 4, 2), back(0), back(1), ask(0, 4, 2), ask(3, 4, 2), back(2)},
		"too many after a resize":  {ask(0, 2, 1), ask(1, 2, 1), ask(2, 2, 1), {{Verb: Resize, N: 1}}, back(0), back(1)},
		"a waiter gives up":        {ask(0, 1, 1), ask(1, 1, 1), back(1), back(0)},
		"only waiter, paused":      {{{Verb: Pause, Flag: true}}, ask(0, 3, 1), back(0)},

		"behind a heavy one":     {ask(0, 3, 2), ask(1, 3, 2), ask(2, 3, 1), back(0)},
		"waits in vain":          {ask(0, 1, 1), ask(1, 1, 1, func(t *Terms) { t.Wait = false })},
		"waits with head start":  {ask(0, 1, 1), ask(1, 1, 1), ask(2, 1, 1, func(t *Terms) { t.HeadStart = time.Hour })},
		"the queue is full":      {ask(0, 1, 1), ask(1, 1, 1), ask(2, 1, 1, func(t *Terms) { t.QueueLimit = 1 })},
		"too heavy to wait":      {ask(0, 3, 1), ask(1, 3, 4)},
		"another limit":          {ask(0, 1, 1), ask(1, 2, 1), ask(2, 2, 1)},
		"waits for longer":       {ask(0, 1, 1), ask(1, 1, 1, func(t *Terms) { t.Heartbeat = time.Hour }), back(0), back(1)},
		"waits for less":         {ask(0, 1, 1), ask(1, 1, 1, func(t *Terms) { t.Heartbeat = time.Second }), back(0), back(1)},
		"asks again from behind": {ask(0, 1, 1), ask(1, 1, 1), ask(1, 1, 1), back(0)},
	})
}

// tellAll tells stories at several paces, to the last millisecond of a lease, and
// to the one in which it runs out.
func tellAll(t *testing.T, stories map[string][][]Op) {
	t.Helper()
	ttl := terms(1).TTL
	for name, calls := range stories {
		t.Run(name, func(t *testing.T) {
			for _, pause := range []time.Duration{0, time.Millisecond, ttl - time.Millisecond, ttl - 1, ttl, time.Hour} {
				tell(t, calls, pause)
			}
		})
	}
}

// TestLoneWayFollowsThePolicy: whether keys may carry a TTL is for the process to
// say that makes the call.
func TestLoneWayFollowsThePolicy(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]Op{
		"waits":  {Verb: Acquire, ID: "s0.2", Terms: terms(1)},
		"renews": {Verb: Renew, ID: "s0.1", TTL: time.Minute},
	} {
		t.Run(name, func(t *testing.T) { followPolicy(t, then) })
	}
}

func followPolicy(t *testing.T, then Op) {
	t.Helper()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		for _, evicting := range []bool{true, false} {
			r.reset(t)
			r.stores[0].Evicting(evicting)
			r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
			r.stores[0].Evicting(!evicting)
			r.do(t, 0, then)
			for _, key := range []string{r.keys.State, r.keys.Order} {
				if ttl := r.rdb.PTTL(t.Context(), key).Val(); ttl > 0 != evicting || ttl == -2 {
					t.Errorf("first evicting %v, then not: %s has the TTL %v", evicting, key, ttl)
				}
			}
		}
	})
}

// tell makes the calls, with pauses in between, by the short ways and by the
// general way, while the model watches.
func tell(t *testing.T, calls [][]Op, pause time.Duration) {
	t.Helper()
	tellFrom(t, start, calls, pause)
}

// tellFrom is tell, from some moment on.
func tellFrom(t *testing.T, clock time.Time, calls [][]Op, pause time.Duration) {
	t.Helper()
	for _, keeps := range []bool{false, true} {
		short, long, clock := newTrial(t, embedded(t, form{keeps: keeps})), newTrial(t, embedded(t, form{keeps: keeps, long: true})), clock
		for _, ops := range calls {
			clock = clock.Add(pause)
			x, y := short.timed(t, event{ops: slices.Clone(ops)}, clock), long.timed(t, event{ops: slices.Clone(ops)}, clock)
			if x != y {
				t.Fatalf("%s\nby a short way\n%s\nby the general way\n%s", opsString(ops), x, y)
			}
		}
	}
}

// TestFoldedIsAdopted: messages about a lease go to who renewed it last.
func TestFoldedIsAdopted(t *testing.T) {
	t.Parallel()
	for _, f := range []form{{}, {keeps: true}} {
		tr, clock := newTrial(t, embedded(t, f)), start
		for session, ops := range [][]Op{
			{{Verb: Acquire, ID: "s0.1", Terms: terms(3)}},
			{{Verb: Renew, ID: "s0.1", TTL: time.Minute}},
			{{Verb: Evict, ID: "s0.1", Flag: true}},
		} {
			clock = clock.Add(time.Second)
			tr.timed(t, event{session: session, ops: ops}, clock)
		}
	}
}

// TestFoldedAmongForeign: where somebody else wrote beside a folded semaphore, or
// into it, it is not unfolded, and nobody is shown it as if all were well.
func TestFoldedAmongForeign(t *testing.T) {
	t.Parallel()
	for _, d := range []damage{
		command(ErrCorrupt, "ZADD", "ORDER", 1, "a"),
		command(ErrCorrupt, "HSET", "STATE", "a", "b"),
		field("settings", 3, "4294967295", ErrCorrupt),
	} {
		t.Run(d.name, func(t *testing.T) {
			onBoth(t, form{}, func(t *testing.T, r *rig) {
				folds(t, r)
				d.do(t, r)
				before := r.raw(t)
				for _, name := range []string{"acquire", "try", "pause"} {
					probe(t, r, d, before, name, probes()[name])
				}
				inspectDamaged(t, r, d, folds)
			})
		})
	}
}

// TestHandOffIsToldToWhoWaits: to the session whose the waiter is, by every way.
func TestHandOffIsToldToWhoWaits(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, r *rig) {
		for name, back := range map[string][]Op{"one": back(0), "two": append(back(0), back(1)...)} {
			r.reset(t)
			r.do(t, 0, append(ask(0, 2, 1), ask(1, 2, 1)...)...)
			var want []string
			for i := range back {
				r.do(t, 1-i, Op{Verb: Acquire, ID: fmt.Sprintf("s%d.9", 1-i), Terms: terms(2)})
				want = append(want, ownerOf(r.stores[1-i]))
			}
			r.notes(t)
			r.do(t, 0, back...)
			if heard := slices.Sorted(maps.Keys(r.notes(t))); !slices.Equal(heard, slices.Sorted(slices.Values(want))) {
				t.Errorf("%s: heard by %q, want %q", name, heard, want)
			}
		}
	})
}

// TestReleaseAmongForeign: records and free slots that nobody could have written are
// found in a call of several operations, too.
func TestReleaseAmongForeign(t *testing.T) {
	t.Parallel()
	damages := []damage{
		command(ErrCorrupt, "ZREM", "ORDER", "s1"),
		both(command(nil, "ZREM", "ORDER", "s1"), command(ErrCorrupt, "ZADD", "ORDER", 1, "sx")),
	}
	for _, record := range []string{
		"h,1 3 5 0 0 o/1/h l", "h 1,3 5 0 0 o/1/h l", "h 1 x 5 0 0 o/1/h l", "h 1 - 5 0 0 o/1/h l", "h 1 / 5 0 0 o/1/h l",
		"h 1 : 5 0 0 o/1/h l", "h 1 3/ 5 0 0 o/1/h l", "h 1 3: 5 0 0 o/1/h l", "h 1 3",
	} {
		damages = append(damages, command(ErrCorrupt, "HSET", "STATE", "s0.4", record))
	}
	everyWay(t, func(t *testing.T, r *rig) {
		for _, d := range damages {
			r.reset(t)
			acquire := each(Op{Verb: Acquire, Terms: terms(8)}, ids(8)...)
			r.do(t, 0, acquire[:5]...)
			r.do(t, 0, each(Op{Verb: Release}, acquire[1].ID)...)
			d.do(t, r)
			before := r.raw(t)
			_, err := r.stores[0].Do(t.Context(), r.keys, 0, append(each(Op{Verb: Release}, acquire[2].ID, "s0.4"), acquire[5:]...))
			wantKind(t, err, d.want, nil)
			if after := r.raw(t); !reflect.DeepEqual(before, after) {
				t.Errorf("%s: changed\n%v\nto\n%v", d.name, before, after)
			}
		}
	})
}

// TestReleaseLeavesForeignFields: the release of a folded lease looks at its own
// field alone, and takes that alone away.
func TestReleaseLeavesForeignFields(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "counts"} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, form{}, func(t *testing.T, r *rig) {
				folds(t, r)
				r.rdb.HSet(t.Context(), r.keys.State, name, "b")
				if r.mr != nil {
					r.mr.SetTime(start.Add(time.Second)) // past the last token
				}
				_, _ = r.stores[0].Do(t.Context(), r.keys, 0, []Op{{Verb: Release, ID: "s0.2"}})
				if got := r.rdb.HGet(t.Context(), r.keys.State, name).Val(); got != "b" {
					t.Errorf("the field of another holds %q", got)
				}
			})
		})
	}
}

// TestPrefixThatBeginsLikeAShard: a colon in front marks shard channels, and prefixes
// may begin with one.
func TestPrefixThatBeginsLikeAShard(t *testing.T) {
	t.Parallel()
	mr, rdb := newEmbedded(t)
	r := newRig(t, rdb, mr, ":x", form{})
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(2)}, ids(3)...)...)
	mr.SetTime(start.Add(time.Second))
	r.do(t, 0, each(Op{Verb: Release}, ids(1)...)...)
	if heard := r.notes(t)[ownerOf(r.stores[0])]; len(heard) != 1 {
		t.Errorf("heard %q, want one grant", heard)
	}
}

// TestWhatIsForbiddenChangesNothing: a user who may not do all that a call needs
// does none of it.
func TestWhatIsForbiddenChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRig(t, server.Client(t), nil, server.Prefix(t), form{})
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(8)}, ids(4)...)...)
	server.Do(t, "ACL", "SETUSER", "weak", "on", ">secret", "~*", "&*", "+@all", "-zadd")
	o := *server.Client(t).Options()
	o.Username, o.Password = "weak", "secret"
	weak := redis.NewClient(&o)
	t.Cleanup(func() { _ = weak.Close() })
	s := NewStore(weak, r.prefix, "s0", 100, "host")
	s.Evicting(true)
	before := r.raw(t)
	_, err := s.Do(t.Context(), r.keys, 0, each(Op{Verb: Release}, "s0.1", "s0.2"))
	if after := r.raw(t); err == nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%v, and changed\n%v\nto\n%v", err, before, after)
	}
}

// starved runs ops on a layout when the server has no memory left.
func starved(t *testing.T, server *redistest.Server, f form, lay layout, ops []Op) error {
	t.Helper()
	r := newRig(t, server.Client(t), nil, server.Prefix(t), f)
	lay(t, r)
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	defer server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	_, err := r.stores[0].Do(t.Context(), r.keys, 0, ops)
	return err
}

// TestReleaseAmongAcquiresWhenMemoryIsShort: a release passes, whatever else its call asks for.
func TestReleaseAmongAcquiresWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, f := range []form{{}, {long: true}, {keeps: true}, {keeps: true, long: true}} {
		ops := []Op{{Verb: Release, ID: "s0.2"}, {Verb: Acquire, ID: "s0.9", Terms: terms(3)}}
		if err := starved(t, server, f, plain, ops); err != nil || ops[0].Result.Code != Released {
			t.Errorf("%+v: %v, %+v", f, err, ops[0].Result)
		}
	}
}

// TestFreedSlotWhenMemoryIsShort: who takes a slot that was freed before takes as
// much memory away as it needs, and passes by every way.
func TestFreedSlotWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	hole := func(t failer, r *rig) {
		r.reset(t)
		r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(4)}, ids(3)...)...)
		r.do(t, 0, Op{Verb: Release, ID: "s0.2"})
	}
	for _, f := range []form{{}, {long: true}, {keeps: true}, {keeps: true, long: true}} {
		for _, ops := range [][]Op{each(Op{Verb: Acquire, Terms: terms(4)}, "s0.9"), each(Op{Verb: Acquire, Terms: terms(4)}, "s0.8", "s0.9")} {
			if err := starved(t, server, f, hole, ops); err != nil || ops[0].Result.Slot != 1 {
				t.Errorf("%+v: %v, %+v", f, err, ops[0].Result)
			}
		}
	}
}

// TestRepeatWhenMemoryIsShort: whoever asks again for what it has needs no room.
func TestRepeatWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, f := range []form{{}, {long: true}, {keeps: true}} {
		ops := each(Op{Verb: Acquire, Terms: terms(3)}, "s0.2")
		if err := starved(t, server, f, plain, ops); err != nil || ops[0].Result.Code != Granted {
			t.Errorf("%+v: %v, %+v", f, err, ops[0].Result)
		}
	}
}

// TestFoldedWhenMemoryIsShort: what a server without memory lets pass does so
// folded, too. Renewals, releases, refusals and the empty call are among that.
func TestFoldedWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	passes := func(f form, ops ...Op) bool {
		err := starved(t, server, f, folds, ops)
		if err != nil {
			wantKind(t, err, ErrRefused, nil)
		}
		return err == nil
	}
	always := map[string]bool{"renew": true, "renew, adopted": true, "release": true, "heartbeat, holder": true, "busy": true, "full": true, "heavy": true}
	all := probes()
	for name, change := range map[string]func(*Terms){
		"busy":  func(t *Terms) { t.Wait, t.Weight = false, 3 },
		"full":  func(t *Terms) { t.QueueLimit, t.Weight = 0, 3 },
		"heavy": func(t *Terms) { t.Weight = 4 },
	} {
		all[name] = Op{Verb: Acquire, ID: "s0.8", Terms: terms(3, change)}
	}
	all["renew, adopted"] = Op{Verb: Renew, ID: "s0.2", TTL: time.Hour}
	for _, f := range []form{{}, {long: true}} {
		if !passes(f) {
			t.Errorf("%+v: the empty call does not pass", f)
		}
	}
	for name, op := range all {
		for _, keeps := range []bool{false, true} {
			folded, plain := passes(form{keeps: keeps}, op), passes(form{keeps: keeps, long: true}, op)
			if plain && !folded || always[name] && !folded {
				t.Errorf("%s: passes folded: %v, else: %v", name, folded, plain)
			}
		}
	}
}
