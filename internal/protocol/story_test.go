package protocol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stories: some calls in a row, told twice, as they are and with a compact lease
// unfolded after each. The compact tier must answer, store and publish as the general
// one does. The model watches both, so stories need no expectations of their own. Each
// call is another process's.

// cast are the ids of the stories; ask and the others make calls of one of them.
var cast = ids(4)

func ask(id, limit, weight int, change ...func(*Terms)) []Op {
	change = append(change, func(t *Terms) { t.Weight = weight })
	return []Op{{Verb: Acquire, ID: cast[id], Terms: terms(limit, change...)}}
}

func back(id int) []Op  { return []Op{{Verb: Release, ID: cast[id]}} }
func renew(id int) []Op { return []Op{{Verb: Renew, ID: cast[id], TTL: terms(1).TTL}} }
func tomb(id int) []Op  { return []Op{{Verb: Release, ID: cast[id], Flag: true}} }
func beat(id int) []Op  { return []Op{{Verb: Heartbeat, ID: cast[id], TTL: time.Second, Flag: true}} }

// move moves a lease to another id of another process.
func move(id int, ttl time.Duration) []Op {
	return []Op{{Verb: Move, ID: cast[id], To: "s1." + cast[id], TTL: ttl}}
}

func capped(t *Terms) { t.MaxHold = time.Second }
func aMonth(t *Terms) { t.TTL = 30 * 24 * time.Hour }

// tellAll tells stories at several paces, to the last millisecond of a lease, and
// to the one in which it runs out; with -short, only without pauses and to the last.
func tellAll(t *testing.T, stories map[string][][]Op) {
	t.Helper()
	ttl := terms(1).TTL
	paces := []time.Duration{0, ttl, time.Millisecond, ttl - time.Millisecond, time.Hour}
	if testing.Short() {
		paces = paces[:2]
	}
	for _, keeps := range []bool{false, true} {
		asIs, unfolded := embedded(t, keeps), embedded(t, keeps)
		for _, name := range slices.Sorted(maps.Keys(stories)) {
			t.Run(name, func(t *testing.T) {
				for _, pause := range paces {
					tell(t, asIs, unfolded, stories[name], pause)
				}
			})
		}
	}
}

// tell makes the calls on both rigs, with pauses in between.
func tell(t *testing.T, asIs, unfolded *rig, calls [][]Op, pause time.Duration) {
	t.Helper()
	clock := start
	asIs.mr.SetTime(clock)
	unfolded.mr.SetTime(clock)
	a, b := newTrial(t, asIs), newTrial(t, unfolded)
	for i, ops := range calls {
		clock = clock.Add(pause)
		a.timed(t, event{process: i % processes, ops: slices.Clone(ops)}, clock)
		b.timed(t, event{process: i % processes, ops: slices.Clone(ops)}, clock)
		said, stored := b.said, b.last
		if b.isCompact(t) {
			b.timed(t, event{ops: each(Op{Verb: Release}, "s9.9")}, clock)
		}
		if x, y := a.said.comparable(), said.comparable(); !reflect.DeepEqual(x, y) {
			t.Fatalf("%s\nsaid %+v\nunfolded %+v", opsString(ops), x, y)
		}
		if x, y := a.last.comparable(t), stored.comparable(t); !reflect.DeepEqual(x, y) {
			t.Fatalf("%s\nstored\n%v\nunfolded\n%v", opsString(ops), x, y)
		}
	}
}

// comparable leaves out two times that are lower bounds, and that a reply about a
// compact lease does not tell until when its key lasts.
func (s said) comparable() said {
	s.reply.Next, s.reply.Till, s.reply.Lapses = 0, 0, false
	return s
}

// comparable leaves out the same two times.
func (d dump) comparable(t failer) dump {
	t.Helper()
	c := dump{fields: map[string]string{}, scores: map[string]float64{}}
	maps.Copy(c.fields, d.fields)
	maps.Copy(c.scores, d.scores)
	s := d.state(t)
	s.Next, s.Till = 0, 0
	c.fields["state"] = fmt.Sprint(s)
	return c
}

// isCompact reports whether there is a compact lease, and nothing else.
func (r *rig) isCompact(t failer) bool {
	t.Helper()
	state, err := r.rdb.HGet(context.Background(), r.key.State, "state").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v", err)
	}
	return strings.HasPrefix(state, "3 compact ")
}

// TestCompactLease tells stories of a lease that is alone, or nearly so.
func TestCompactLease(t *testing.T) {
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
		"no limit":           {ask(0, 0, 1), acquire, release},
		"no limit, again":    {acquire, ask(0, 0, 1), ask(1, 0, 1), release},
		"tombstone":          {acquire, tomb(0), acquire},
		"beside a tombstone": {tomb(1), acquire, release},
		"of a month":         {ask(0, 3, 1, aMonth), ask(1, 3, 1, aMonth), tomb(0), tomb(1), tomb(2)},
		"of a month, moved":  {ask(0, 3, 1, aMonth), move(0, 0), each(Op{Verb: Release, Flag: true}, "s1.s0.1")},
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
		"a heartbeat":        {acquire, beat(0), release},
		"evicted":            {acquire, {{Verb: Evict, ID: cast[0], Flag: true}}, acquire},
		"to be evicted":      {acquire, {{Verb: Evict, ID: cast[0]}}, renew(0), release},
		"more at once":       {acquire, append(back(0), ask(1, 3, 1)...), append(renew(0), renew(1)...), release},
		"nothing":            {{}, acquire, {}, release, {}},
		"one of two":         {acquire, ask(1, 3, 1), release, back(1)},
		"one for another":    {acquire, append(back(0), ask(1, 3, 1)...), back(1)},
		"one, and a tomb":    {acquire, tomb(2), append(back(0), ask(1, 3, 1)...), renew(1), back(1)},
		"another limit":      {acquire, ask(1, 1, 1), ask(0, 2, 1), release},
	})
}

// TestCompactLeaseMoves tells of leases that are moved; TestMove tells what is answered.
func TestCompactLeaseMoves(t *testing.T) {
	t.Parallel()
	acquire, release := ask(0, 3, 1), back(0)
	tellAll(t, map[string][][]Op{
		"moved":           {acquire, move(0, 0), release, each(Op{Verb: Release}, "s1.s0.1")},
		"moved, again":    {acquire, move(0, 0), move(0, 0), move(0, time.Second)},
		"moved, renewed":  {acquire, move(0, 0), renew(0), each(Op{Verb: Renew, TTL: time.Minute}, "s1.s0.1")},
		"with a TTL":      {acquire, move(0, time.Second), move(0, time.Hour)},
		"capped":          {ask(0, 3, 1, capped), move(0, 0), move(0, time.Hour)},
		"of a label":      {ask(0, 3, 2, func(t *Terms) { t.Label = "a b\nc" }), move(0, 0)},
		"of nobody":       {move(0, 0), acquire, release, move(0, 0)},
		"of a waiter":     {ask(0, 1, 1), ask(1, 1, 1), move(1, 0), back(0), move(1, 0)},
		"of an evicted":   {acquire, {{Verb: Evict, ID: cast[0]}}, move(0, 0)},
		"of a tombstone":  {acquire, tomb(0), move(0, 0)},
		"to a tombstone":  {acquire, {{Verb: Release, ID: "s1.s0.1", Flag: true}}, move(0, 0), renew(0)},
		"to a waiter":     {ask(0, 1, 1), {{Verb: Acquire, ID: "s1.s0.1", Terms: terms(1)}}, move(0, 0), renew(0)},
		"a second mover":  {acquire, move(0, 0), {{Verb: Move, ID: cast[0], To: "s2.7"}}},
		"moved on":        {acquire, move(0, 0), {{Verb: Move, ID: "s1.s0.1", To: "s2.7"}}, move(0, 0), {{Verb: Move, ID: "s1.s0.1", To: "s2.7"}}},
		"a copy, late":    {acquire, move(0, 0), acquire, ask(1, 3, 1), acquire},
		"others wait":     {ask(0, 1, 1), ask(1, 1, 1), move(0, 0), each(Op{Verb: Release}, "s1.s0.1"), back(1)},
		"among others":    {ask(0, 9, 1), ask(1, 9, 2), append(move(0, 0), back(1)...), append(move(1, 0), ask(2, 9, 1)...)},
		"two in one call": {ask(0, 9, 1), ask(1, 9, 2), append(move(0, 0), move(1, 0)...), append(move(0, 0), move(1, 0)...)},
	})
}

// TestQueue tells stories of leases for which others wait.
func TestQueue(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string][][]Op{
		"hand-off":                 {ask(0, 1, 1), ask(1, 1, 1), back(0), back(1)},
		"hand-off among many":      {ask(0, 2, 1), ask(1, 2, 1), ask(2, 2, 1), ask(3, 2, 1), back(1), back(0), back(2), back(3)},
		"hand-off to a lighter":    {ask(0, 3, 3), ask(1, 3, 1), ask(2, 3, 1), back(0)},
		"hand-off to a capped one": {ask(0, 1, 1), ask(1, 1, 1, capped), ask(2, 1, 1), back(0), back(1)},
		"capped, and asks again":   {ask(0, 1, 1), ask(1, 1, 1, capped), append(back(0), ask(1, 1, 1, capped)...), beat(1)},
		"room for another":         {ask(0, 3, 2), ask(1, 3, 2), ask(2, 3, 1), back(0)},
		"a lower slot is free":     {ask(0, 4, 1), ask(1, 4, 1), ask(2, 4, 2), back(0), back(1), ask(0, 4, 2), ask(3, 4, 2), back(2)},
		"too many after a resize":  {ask(0, 2, 1), ask(1, 2, 1), ask(2, 2, 1), {{Verb: Resize, N: 1}}, back(0), back(1)},
		"a waiter gives up":        {ask(0, 1, 1), ask(1, 1, 1), back(1), back(0)},
		"only waiter, paused":      {{{Verb: Pause, Flag: true}}, ask(0, 3, 1), back(0)},
		"behind a heavy one":       {ask(0, 3, 2), ask(1, 3, 2), ask(2, 3, 1), back(0)},
		"waits in vain":            {ask(0, 1, 1), ask(1, 1, 1, func(t *Terms) { t.Wait = false })},
		"waits with head start":    {ask(0, 1, 1), ask(1, 1, 1), ask(2, 1, 1, func(t *Terms) { t.HeadStart = time.Hour })},
		"the queue is full":        {ask(0, 1, 1), ask(1, 1, 1), ask(2, 1, 1, func(t *Terms) { t.QueueLimit = 1 })},
		"too heavy to wait":        {ask(0, 3, 1), ask(1, 3, 4)},
		"too heavy after a resize": {ask(0, 3, 3), ask(1, 3, 3), {{Verb: Resize, N: 2}}, back(0), beat(1), ask(1, 2, 1)},
		"another limit":            {ask(0, 1, 1), ask(1, 2, 1), ask(2, 2, 1)},
		"no limit":                 {ask(0, 1, 1), ask(1, 0, 1), ask(2, 2, 1), ask(3, 0, 1), back(0)},
		"waits for longer":         {ask(0, 1, 1), ask(1, 1, 1, func(t *Terms) { t.Heartbeat = time.Hour }), back(0), back(1)},
		"waits for less":           {ask(0, 1, 1), ask(1, 1, 1, func(t *Terms) { t.Heartbeat = time.Second }), back(0), back(1)},
		"asks again from behind":   {ask(0, 1, 1), ask(1, 1, 1), ask(1, 1, 1), back(0)},
		"unpinned and declared":    {ask(0, 4, 1), {{Verb: Pin, N: 0}}, ask(1, 4, 2), append([]Op{{Verb: Pin, N: -1}}, ask(2, 2, 1)...)},
		"frozen":                   {ask(0, 3, 1), ask(1, 3, 1), {{Verb: Pin, N: 0}}, ask(2, 3, 1), back(0), back(1), {{Verb: Pin, N: -1}}},
	})
}

// TestPartsOfAMillisecond: what the script never sees of a TTL is not promised.
func TestPartsOfAMillisecond(t *testing.T) {
	t.Parallel()
	odd := 2*time.Second + 999*time.Microsecond
	tellAll(t, map[string][][]Op{
		"acquired": {ask(0, 3, 1, func(t *Terms) { t.TTL = odd }), back(0)},
		"renewed":  {ask(0, 3, 1), {{Verb: Renew, ID: cast[0], TTL: odd}}, back(0)},
		"moved":    {ask(0, 3, 1), move(0, odd), {{Verb: Heartbeat, ID: "s1.s0.1", TTL: odd}}},
	})
}

// TestLeaseAsLongAsALateCopy: a lease that runs out when the last copy of its acquire may
// come leaves no tombstone, one that is shorter does, to the millisecond.
func TestLeaseAsLongAsALateCopy(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		for _, ttl := range []time.Duration{Late - time.Millisecond, Late, Late + time.Millisecond} {
			asIs, unfolded := embedded(t, keeps), embedded(t, keeps)
			lasting := func(t *Terms) { t.TTL, t.Heartbeat = ttl, ttl }
			tell(t, asIs, unfolded, [][]Op{ask(0, 1, 1, lasting), {}, ask(0, 1, 1, lasting)}, ttl)
			tell(t, asIs, unfolded, [][]Op{append(ask(0, 1, 1, lasting), ask(1, 1, 1, lasting)...), {}, ask(1, 1, 1), back(1)}, ttl)
		}
	}
}

// TestOneIDBeginsLikeAnother: only the whole id is the lease's.
func TestOneIDBeginsLikeAnother(t *testing.T) {
	t.Parallel()
	long := each(Op{Verb: Acquire, Terms: terms(3)}, "s0.10")
	tellAll(t, map[string][][]Op{
		"released": {long, back(0), each(Op{Verb: Release}, "s0.10")},
		"renewed":  {long, renew(0), each(Op{Verb: Renew, TTL: time.Minute}, "s0.10")},
		"moved":    {long, move(0, 0), each(Op{Verb: Renew, TTL: time.Minute}, "s0.10")},
	})
}
