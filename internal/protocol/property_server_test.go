package protocol

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The same property on a real server. Its clock cannot be set, so leases and
// heartbeats are a few milliseconds long and run out while the calls are made;
// and the model is told afterwards at what time the server ran each call.

// TestModelOnServer runs the model beside the script on a real server, with the
// times that this server gave.
func TestModelOnServer(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps=%v", keeps), func(t *testing.T) {
			t.Parallel()
			r := onServer(t, keeps)
			rapid.Check(t, func(t *rapid.T) { checkServer(t, r) })
		})
	}
}

func checkServer(t *rapid.T, r *rig) {
	events := genEvents(rapid.Bool().Draw(t, "calm"), 0).Draw(t, "events")
	tr := newTrial(t, r)
	for _, e := range events {
		if !tr.untimed(t, e) {
			return
		}
	}
}

// untimed makes one call at a time that the server chooses. It returns false
// where it cannot be told whether the keys had just vanished.
func (tr *trial) untimed(t failer, e event) bool {
	t.Helper()
	c := call{owner: tr.stores[e.process].owner, ops: e.ops}
	if e.late {
		c.notAfter = 1
	}
	ops := append([]Op(nil), c.ops...)
	reply, err := tr.stores[e.process].Do(context.Background(), tr.key, c.notAfter, ops)
	c.now = reply.Now
	if e.late {
		wantKind(t, err, ErrRefused, nil)
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v", opsString(ops), err)
	}
	if s := tr.last.state(t); s.Lapses && c.now >= s.Till-1 && c.now <= s.Till+1 {
		return false
	}
	tr.elapse(t, c.now)
	c.us, c.next = reply.us, tr.next(t)
	step, _ := tr.model.run(c)
	tr.compare(t, step, reply, resultsOf(ops), tr.notes(t))
	return true
}

var (
	exponent   = regexp.MustCompile(`\d[eE][+-]?\d`)
	longNumber = regexp.MustCompile(`\b\d{13}000\b`) // of microseconds, only 13 digits left
)

// TestNumbersAreExact looks for a number with 14 significant digits, as Lua
// prints it by itself, in all that a real server stores, answers and publishes.
func TestNumbersAreExact(t *testing.T) {
	t.Parallel()
	r := onServer(t, true)
	// A token in a thousand ends in zeros by itself, but not the same record's three times.
	const rounds = 3
	zeros := map[string]int{}
	for range rounds {
		for id, record := range everyNumber(t, r) {
			if longNumber.MatchString(record) {
				if zeros[id]++; zeros[id] == rounds {
					t.Errorf("%s = %s ends in zeros", id, record)
				}
			}
		}
	}
}

// everyNumber returns the hash of a semaphore with all kinds of records, and fails if a number
// in what is stored and published has an exponent.
func everyNumber(t *testing.T, r *rig) map[string]string {
	t.Helper()
	r.reset(t)
	wait := Op{Verb: Acquire, Terms: terms(2, func(t *Terms) { t.MaxHold = time.Hour })}
	r.do(t, 0, each(wait, ids(6)...)...)
	r.do(t, 1, Op{Verb: Release, ID: "s0.1", Flag: true})
	r.do(t, 1, Op{Verb: Renew, ID: "s0.2", TTL: time.Minute}, Op{Verb: Evict, ID: "s0.6"})
	d, notes := r.dump(t), r.notes(t)
	text := fmt.Sprint(d, notes)
	if exponent.MatchString(text) {
		t.Fatalf("a number lost its digits:\n%s", text)
	}
	if len(notes) == 0 || d.state(t).Last < time.Now().Add(-time.Hour).UnixMicro() {
		t.Fatalf("nothing to look at:\n%s", text)
	}
	return d.fields
}
