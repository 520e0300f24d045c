package protocol

import (
	"context"
	"fmt"
	"testing"
)

// What lets more than the limit in is refused, as far as it can be seen without
// reading everything. Each call of the general tier looks at:
//
//   - "state": its form, and numbers within what is possible; holders exactly where
//     there are permits in use and slots, no more of them than permits
//   - the number of members of the sorted set, and of those that are free slots, which must
//     be what state says; so one member more or less is noticed, and so is the loss of one of
//     the two keys
//   - the record of each id that it names or hands a permit to, and its deadline where
//     an answer needs it
//   - before a newcomer or a waiter gets a slot: the free slots that it reads
//   - that what it is about to write makes sense: no count below zero, no slot beyond
//     those there are, no deadline beyond a century
//
// A call on a compact lease by its id looks at that field alone; any other looks
// whether there is something beside it. To Inspect, what has no form is damage.
//
// These are believed, because nothing tells them from what berth wrote: that there
// are no keys at all; the limit; permits in use, between what the holders need at least
// and what was written (leases of weight 1 leave no room for this); the weight of a
// record; a deadline, if it is one; several changes at once that agree with each other.

// believers are how many permits the holders of furnish, plain and so on rely on.
func believers(t failer, r *rig) (weight int) {
	t.Helper()
	for _, p := range holdersOf(r.raw(t)) {
		weight += p.weight
	}
	return weight
}

// admit has newcomers try, and returns how many were let in.
func admit(r *rig) (granted int) {
	for i := range 3 {
		ops := []Op{{Verb: Acquire, ID: fmt.Sprint("s2.", i), Terms: terms(3, func(t *Terms) { t.Wait = false })}}
		if _, err := r.stores[2].Do(context.Background(), r.key, 0, ops); err == nil && ops[0].Result.Code == Granted {
			granted++
		}
	}
	return granted
}

// noMoreThanLimit damages each state, lets somebody do something or nothing, and
// has newcomers try. An embedded store is slow, and meets every seventh of all this.
func noMoreThanLimit(t *testing.T, damages []damage, lays ...setup) {
	t.Helper()
	onBoth(t, false, func(t *testing.T, r *rig) {
		turn, step := 0, 1
		if r.mr != nil {
			step = 7
		}
		if testing.Short() {
			step = 10*step + 1
		}
		for _, d := range damages {
			for _, lay := range lays {
				for _, first := range []string{"", "release", "renew", "cancel"} {
					if turn++; !*full && turn%step != 0 {
						continue
					}
					lay(t, r)
					held := believers(t, r)
					d.do(t, r)
					held -= gives(r, first)
					if more := admit(r); held+more > 3 {
						t.Errorf("%s, %s: %d are let in beside %d, the limit is 3\n%v", d.name, first, more, held, r.raw(t))
					}
				}
			}
		}
	})
}

// gives runs a probe, and returns how many permits a holder so gave back.
func gives(r *rig, name string) int {
	op, ok := probes()[name]
	if !ok {
		return 0
	}
	ops := []Op{op}
	if _, err := r.stores[0].Do(context.Background(), r.key, 0, ops); err == nil && ops[0].Result.Code == Released && op.ID == "s0.2" {
		return 1
	}
	return 0
}

func TestNoLostKeyLetsMoreIn(t *testing.T) {
	t.Parallel()
	lost := []damage{command(nil, "DEL", "ORDER"), vanish("ORDER"), command(nil, "HDEL", "STATE", "state")}
	noMoreThanLimit(t, lost, furnish, plain, buried, lone)
	noMoreThanLimit(t, append(lost[:0:0], command(nil, "DEL", "STATE"), vanish("STATE")), furnish, plain, buried, lone)
}

func TestNoNumberLetsMoreIn(t *testing.T) {
	t.Parallel()
	const used, holders, waiting, tombs, slots, last, nearest, till = 5, 6, 7, 8, 9, 10, 11, 12
	var damages []damage
	for _, place := range []int{used, holders, waiting, tombs, slots, last, nearest, till} {
		for _, n := range []string{"0", "1", "2", "5", "12x", "-1", "1e3", "9007199254740993"} {
			damages = append(damages, field(nil, place, n))
		}
	}
	damages = append(damages,
		field(nil, used, 0, holders, 0), // beside a tombstone, the free slots make up for them
		field(nil, used, 1, holders, 1),
		field(nil, used, 0, holders, 0, slots, 0),
		field(nil, used, 1, holders, 1, slots, 1),
		field(nil, used, 0, holders, 0, waiting, 0, tombs, 0, slots, 0),
	)
	noMoreThanLimit(t, damages, furnish, plain, buried, lone)
}

func TestNoRecordLetsMoreIn(t *testing.T) {
	t.Parallel()
	var holder, waiter []damage
	for _, record := range append([]string{
		"x 1", "x 5 1/h;g", "e 1 1 5 0 30000 - 1/h;g l", "w 1 - 5 0 30000 15000 1/h;g l", "h 2 1 5 0 30000 - 1/h;g l", "h 3 1 5 0 30000 - 1/h;g l", "h 9 1 5 0 30000 - 1/h;g l",
		"h 1 7 5 0 30000 - 1/h;g l", "h 1 2 5 0 30000 - 1/h;g l",
	}, foreignRecords...) {
		holder = append(holder, command(nil, "HSET", "STATE", "s0.2", record))
		waiter = append(waiter, command(nil, "HSET", "STATE", "s0.4", record))
	}
	noMoreThanLimit(t, append(holder, command(nil, "HDEL", "STATE", "s0.2")), furnish, plain, buried, lone)
	noMoreThanLimit(t, append(waiter, command(nil, "HDEL", "STATE", "s0.4")), furnish)
}

func TestNoScoreLetsMoreIn(t *testing.T) {
	t.Parallel()
	var damages []damage
	for _, score := range []any{"+inf", "-inf", 0, 3, -5, int64(1 << 31), 4e9} {
		for _, member := range []string{"s0.2", "s0.4", "#s0.4", "s1.1", "0", note} {
			damages = append(damages, command(nil, "ZADD", "ORDER", "XX", score, member))
		}
	}
	for _, member := range []string{"s0.2", "s0.4", "#s0.4", "s1.1", "0", note} {
		damages = append(damages, command(nil, "ZREM", "ORDER", member),
			both(command(nil, "ZREM", "ORDER", member), command(nil, "ZADD", "ORDER", 7, "7")))
	}
	for _, row := range foreignRows {
		damages = append(damages, both(command(nil, "ZREM", "ORDER", "0"), command(nil, "ZADD", "ORDER", 0, row)))
	}
	noMoreThanLimit(t, damages, furnish, plain, buried, lone)
}

// foreignRows are no free slots, where slot 0 alone is free of three.
var foreignRows = []string{"0-1", "0-2", "0-3", "1-0", "1-1", "3", "9", "5-6", "-", "-0", "0-x", "0-1-2", "x"}

// TestNoCompactStateLetsMoreIn: but for its deadline, nothing of the one field may be
// changed so that another lease fits in beside it.
func TestNoCompactStateLetsMoreIn(t *testing.T) {
	t.Parallel()
	var damages []damage
	for place := range 10 {
		for _, value := range []string{"12x", "-1", "1e3", "", "0", "9007199254740993"} {
			if place != 4 || value != "0" {
				damages = append(damages, field(nil, place, value))
			}
		}
	}
	damages = append(damages, command(nil, "ZADD", "ORDER", 1, "a"), command(nil, "HSET", "STATE", "a", "b"), command(nil, "HDEL", "STATE", "state"))
	noMoreThanLimit(t, damages[:len(damages)-1], compact)
}
