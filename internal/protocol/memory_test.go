package protocol

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// A server without memory, and a user who may not do all that a call needs: what gives
// back or keeps what is there passes, what is new does not, and no call is done by half.

// starved runs ops on keys that lay has made, when the server has no memory left. It
// checks that a refusal changed nothing.
func starved(t *testing.T, server *redistest.Server, keeps bool, lay setup, ops []Op) error {
	t.Helper()
	r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), keeps)
	lay(t, r)
	before := r.raw(t)
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	defer server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	_, err := r.stores[0].Do(t.Context(), r.key, 0, ops)
	if err != nil {
		wantKind(t, err, ErrRefused, nil)
		if after := r.raw(t); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: refused, but changed\n%v\nto\n%v", opsString(ops), before, after)
		}
	}
	return err
}

// hole leaves slot 1 free between two that are held.
func hole(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, each(Op{Verb: Acquire, Terms: terms(3)}, ids(3)...)...)
	r.do(t, 0, Op{Verb: Release, ID: "s0.2"})
}

// inherits leaves s0.2 holding all there is, and s0.4 waiting, who will be capped.
func inherits(t failer, r *rig) {
	t.Helper()
	r.reset(t)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.2", Terms: terms(3, func(t *Terms) { t.Weight = 3 })})
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.4", Terms: terms(3, capped)})
}

// overdueTombs leaves s0.2 and s0.3 holding, and a tombstone whose time has come.
func overdueTombs(t failer, r *rig) {
	t.Helper()
	buried(t, r)
	overdue(t, r, "s1.1")
}

// TestWhatPassesWhenMemoryIsShort: by verb, and whatever the keys hold.
func TestWhatPassesWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lays := map[string]setup{
		"compact": compact, "lone": lone, "plain": plain, "buried": buried, "furnish": furnish, "inherits": inherits, "overdue": overdueTombs,
	}
	all := probes()
	all["nothing"] = Op{}
	for _, name := range slices.Sorted(maps.Keys(lays)) {
		for _, keeps := range []bool{false, true} {
			for probe, op := range all {
				ops := []Op{op}
				if probe == "nothing" {
					ops = nil
				}
				fresh := probe == "acquire" || probe == "try" || probe == "acquire, new" || probe == "wait again" && name != "furnish" && name != "inherits"
				err := starved(t, server, keeps, lays[name], ops)
				switch {
				case fresh && name == "inherits" && probe == "try": // is told that all is taken
				case fresh && name == "furnish" && probe == "try":
				case fresh && name == "overdue": // may pass, in place of what is taken out
				case fresh != (err != nil):
					t.Errorf("%s, %s, keeps=%v: %v, %+v", name, probe, keeps, err, resultsOf(ops))
				}
			}
		}
	}
}

// TestRefusalsWhenMemoryIsShort: to be told that there is no room needs none, unless a
// compact lease had to be unfolded for it.
func TestRefusalsWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for want, change := range map[Code]func(*Terms){
		Busy:  func(t *Terms) { t.Wait, t.Weight = false, 3 },
		Full:  func(t *Terms) { t.QueueLimit, t.Weight = 0, 3 },
		Heavy: func(t *Terms) { t.Weight = 4 },
	} {
		for name, lay := range map[string]setup{"compact": compact, "lone": lone, "furnish": furnish} {
			ops := []Op{{Verb: Acquire, ID: "s0.8", Terms: terms(3, change)}}
			err := starved(t, server, false, lay, ops)
			if name == "compact" && err == nil || name != "compact" && (err != nil || ops[0].Result.Code != want) {
				t.Errorf("%s: %v, %+v, want %d", name, err, ops[0].Result, want)
			}
		}
	}
}

// TestReleaseAmongAcquiresWhenMemoryIsShort: a release passes, whatever else its call asks for.
func TestReleaseAmongAcquiresWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, keeps := range []bool{false, true} {
		for name, lay := range map[string]setup{"compact": compact, "plain": plain, "hole": hole, "inherits": inherits} {
			ops := []Op{{Verb: Acquire, ID: "s0.9", Terms: terms(3)}, {Verb: Release, ID: "s0.1"}, {Verb: Release, ID: "s0.2"}}
			if err := starved(t, server, keeps, lay, ops); err != nil || ops[2].Result.Code == Gone && name != "hole" {
				t.Errorf("%s, keeps=%v: %v, %+v", name, keeps, err, resultsOf(ops))
			}
		}
	}
}

// TestFreedSlotWhenMemoryIsShort: a newcomer that would take a slot that was freed before
// needs as much memory as any.
func TestFreedSlotWhenMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, keeps := range []bool{false, true} {
		for _, ids := range [][]string{{"s0.9"}, {"s0.8", "s0.9"}} {
			if err := starved(t, server, keeps, hole, each(Op{Verb: Acquire, Terms: terms(3)}, ids...)); err == nil {
				t.Errorf("%v, keeps=%v: passed", ids, keeps)
			}
		}
	}
}

// without is a client for a user who lacks some rights.
func without(t *testing.T, server *redistest.Server, rights ...any) *redis.Client {
	t.Helper()
	server.Do(t, append([]any{"ACL", "SETUSER", "weak", "on", ">secret", "~*", "&*", "+@all"}, rights...)...)
	return server.Client(t, redistest.Patient, func(o *redis.Options) { o.Username, o.Password = "weak", "secret" })
}

// TestWhatIsForbiddenChangesNothing: a user who lacks a right does all of a step, where it does
// not need that, or nothing of it.
func TestWhatIsForbiddenChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lays := map[string]setup{
		"compact": compact, "lone": lone, "plain": plain, "furnish": furnish, "inherits": inherits, "hole": hole, "overdue": overdueTombs,
		"nothing": func(t failer, r *rig) { r.reset(t) },
	}
	rights := []string{"-hset", "-zrem", "-zadd", "-persist", "-hdel", "-del"}
	if testing.Short() {
		rights = rights[:2]
	}
	for _, right := range rights {
		weak := without(t, server, right)
		for name, lay := range lays {
			for _, keeps := range []bool{false, true} {
				r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), keeps)
				s := NewStore(weak, r.prefix, "s0", 100, "host")
				s.Evicting(!keeps)
				calls := map[string][]Op{
					"two releases":     each(Op{Verb: Release}, "s0.2", "s0.3"),
					"release and move": {{Verb: Release, ID: "s0.3"}, {Verb: Move, ID: "s0.2", To: "s2.2"}},
					"all leave":        each(Op{Verb: Release}, "s0.1", "s0.2", "s0.3", "s0.4", "s0.5"),
				}
				for probe, op := range probes() {
					calls[probe] = []Op{op}
				}
				for call, ops := range calls {
					lay(t, r)
					allOrNothing(t, right+", "+name+", "+call, r, s, ops)
				}
			}
		}
	}
}

// allOrNothing has s do ops, and fails the test if it does half of that.
func allOrNothing(t *testing.T, what string, r *rig, s *Store, ops []Op) {
	t.Helper()
	before := r.raw(t)
	_, err := s.Do(t.Context(), r.key, 0, ops)
	after := r.raw(t)
	if err == nil {
		after.state(t)
		return
	}
	if before.fields["s1.1"] != "" && after.fields["s1.1"] == "" { // to take out what is due is a step of its own
		delete(before.fields, "s1.1")
		before.fields["state"], after.fields["state"] = "", ""
		before.scores, after.scores = nil, nil
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("%s: %v, and changed\n%v\nto\n%v", what, err, before, after)
	}
	if !reflect.DeepEqual(resultsOf(ops), make([]Result, len(ops))) {
		t.Errorf("%s: %v, and results %+v", what, err, resultsOf(ops))
	}
}

// TestWithoutTheRightToExpireKeys everything works, and the keys stay.
func TestWithoutTheRightToExpireKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	weak := without(t, server, "-pexpireat")
	for name, lay := range map[string]setup{"nothing": func(t failer, r *rig) { r.reset(t) }, "compact": compact, "plain": plain, "furnish": furnish} {
		for _, keeps := range []bool{false, true} {
			for probe, op := range probes() {
				r := newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), keeps)
				lay(t, r)
				s := NewStore(weak, r.prefix, "s0", 100, "host")
				s.Evicting(false)
				if _, err := s.Do(t.Context(), r.key, 0, []Op{op}); err != nil {
					t.Errorf("%s, %s, keeps=%v: %v", name, probe, keeps, err)
				}
				r.raw(t).state(t)
			}
		}
	}
}
