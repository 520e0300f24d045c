package protocol

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What random trials do not reach: the ends of the numbers of lines.

// inLines has a lease with one permit out, and waiters of these tenants, s0.2 and on.
func inLines(t *testing.T, tenants ...string) *rig {
	t.Helper()
	r := embedded(t, true)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
	for i, tenant := range tenants {
		r.waits(t, i+2, tenant)
	}
	return r
}

func (r *rig) waits(t *testing.T, id int, tenant string) {
	t.Helper()
	r.do(t, 0, Op{Verb: Acquire, ID: fmt.Sprint("s0.", id), Terms: terms(1, func(t *Terms) { t.Tenant = tenant })})
}

// rewrite changes the turns in "state".
func (r *rig) rewrite(t *testing.T, change func(*turns)) {
	t.Helper()
	ctx := context.Background()
	state := r.raw(t).fields["state"]
	was := r.raw(t).state(t).turns
	is := was
	change(&is)
	text := func(t turns) string {
		return fmt.Sprintf(" %d:%d:%d:%d:%d:%d:%d ", t.epoch, t.clock, t.fresh, t.place, t.plain, t.lines, t.next)
	}
	if !strings.Contains(state, text(was)) {
		t.Fatalf("%q has no %q", state, text(was))
	}
	r.rdb.HSet(ctx, r.key.State, "state", strings.Replace(state, text(was), text(is), 1))
}

// served releases the permit again and again, and returns the ids in the order of their grants.
func (r *rig) served(t *testing.T, holder string) (ids []string) {
	t.Helper()
	for {
		r.do(t, 0, Op{Verb: Release, ID: holder})
		holders := holdersOf(r.raw(t))
		if len(holders) == 0 {
			return ids
		}
		holder = holders[0].id
		ids = append(ids, holder)
	}
}

// TestPlacesBeginAnewBeforeTheyAreInexact: the order is what it was, and no place is that large.
func TestPlacesBeginAnewBeforeTheyAreInexact(t *testing.T) {
	t.Parallel()
	r := inLines(t, "a", "a", "b", "")
	const far = 1 << 50
	want := strings.Join(inLines(t, "a", "a", "b", "").served(t, "s0.1"), " ")
	ctx := context.Background()
	for _, name := range []string{"!ta", "!tb"} {
		var epoch, number, began, pos, place, count int64
		_, _ = fmt.Sscanf(r.raw(t).fields[name], "t %d %d %d %d %d %d", &epoch, &number, &began, &pos, &place, &count)
		r.rdb.HSet(ctx, r.key.State, name, fmt.Sprintf("t %d %d %d %d %d %d", epoch, number, began, pos, place+far, count))
		r.rdb.ZAdd(ctx, r.key.Order(), redis.Z{Score: float64(place + far - NoPlace), Member: name})
	}
	r.rewrite(t, func(t *turns) { t.clock, t.fresh, t.place = t.clock+far, t.fresh+far, t.place+far })
	r.do(t, 0, Op{Verb: Release, ID: "s0.1"})
	if now := r.raw(t).state(t).turns; now.epoch == 0 || now.clock >= far || now.fresh >= far || now.place >= far {
		t.Errorf("they have not begun anew: %+v", now)
	}
	first := holdersOf(r.raw(t))[0].id
	if got := first + " " + strings.Join(r.served(t, first), " "); got != want {
		t.Errorf("served %s, want %s", got, want)
	}
}

// TestLineNumbersBeginAnew, and leave out those of lines that wait still.
func TestLineNumbersBeginAnew(t *testing.T) {
	t.Parallel()
	r := inLines(t, "a")
	r.rewrite(t, func(t *turns) { t.next = 1<<17 - 1 })
	r.waits(t, 3, "b")
	r.waits(t, 4, "c")
	numbers := map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		var epoch int64
		var number int
		_, _ = fmt.Sscanf(r.raw(t).fields["!t"+name], "t %d %d", &epoch, &number)
		numbers[name] = number
	}
	if numbers["a"] != 0 || numbers["b"] != 1<<17-1 || numbers["c"] != 1 {
		t.Errorf("numbers %v", numbers)
	}
	if got := strings.Join(r.served(t, "s0.1"), " "); got != "s0.2 s0.3 s0.4" {
		t.Errorf("served %s", got)
	}
}

// TestHeadStartStaysInItsLine: one of more than a line's room moves a request to the line's front, and
// no further.
func TestHeadStartStaysInItsLine(t *testing.T) {
	t.Parallel()
	served := func(start time.Duration) string {
		r := inLines(t, "a", "b")
		for i, tenant := range []string{"a", "b", "a"} {
			r.do(t, 0, Op{Verb: Acquire, ID: fmt.Sprint("s0.", 4+i), Terms: terms(1, func(t *Terms) { t.Tenant, t.HeadStart = tenant, start })})
		}
		return strings.Join(r.served(t, "s0.1"), " ")
	}
	if got, want := served(1e11*time.Millisecond), served(time.Hour); got != want {
		t.Errorf("served %s, want %s", got, want)
	}
}

// TestTenantComesAsItsRecordIsDue: the record of its empty line still says where it stands.
func TestTenantComesAsItsRecordIsDue(t *testing.T) {
	t.Parallel()
	patient := func(tenant string) func(*Terms) {
		return func(t *Terms) { t.Tenant, t.TTL, t.Heartbeat = tenant, time.Hour, time.Hour }
	}
	tell(t, embedded(t, true), embedded(t, true), [][]Op{
		ask(0, 1, 1, patient("")), ask(1, 1, 1, patient("b")), ask(2, 1, 1, patient("a")), ask(3, 1, 1, patient("b")),
		back(0), back(1), ask(0, 1, 1, patient("a")), back(2), back(3),
	}, time.Minute+time.Second)
}

// TestLineThatNeverEmptiesStaysInItsRoom: its last places are not those of the next line.
func TestLineThatNeverEmptiesStaysInItsRoom(t *testing.T) {
	t.Parallel()
	r := inLines(t, "a", "b")
	var epoch, number, began, pos, place, count int64
	_, _ = fmt.Sscanf(r.raw(t).fields["!ta"], "t %d %d %d %d %d %d", &epoch, &number, &began, &pos, &place, &count)
	began -= (200 * 24 * time.Hour).Milliseconds()
	r.rdb.HSet(context.Background(), r.key.State, "!ta", fmt.Sprintf("t %d %d %d %d %d %d", epoch, number, began, pos, place, count))
	for id := 4; id < 8; id++ {
		r.waits(t, id, "a")
	}
	if got := strings.Join(r.served(t, "s0.1"), " "); got != "s0.2 s0.4 s0.3 s0.5 s0.6 s0.7" {
		t.Errorf("served %s", got)
	}
}

// TestManyLinesBeginAnew: one call writes more than Lua can unpack at once.
func TestManyLinesBeginAnew(t *testing.T) {
	t.Parallel()
	r := onServer(t, true)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
	const lines = 4100
	for first := 2; first < lines; first += chunk {
		var ops []Op
		for id := first; id < first+chunk; id++ {
			ops = append(ops, Op{Verb: Acquire, ID: fmt.Sprint("s0.", id), Terms: terms(1, func(t *Terms) { t.Tenant, t.Heartbeat = fmt.Sprint(id), time.Hour })})
		}
		r.do(t, 0, ops...)
	}
	r.rewrite(t, func(t *turns) { t.clock, t.fresh = 1<<50, 1<<50 })
	r.do(t, 0, Op{Verb: Release, ID: "s0.1"})
	if is := r.raw(t); len(holdersOf(is)) != 1 || is.state(t).turns.fresh >= 1<<50 {
		t.Errorf("%d hold, and %+v", len(holdersOf(is)), is.state(t).turns)
	}
}
