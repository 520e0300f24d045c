package session

import (
	"testing"
)

// TestSessionIDBeginsWithQ: members of the queue have a "q" before their id. One
// id in 64 begins with a q itself, and was read as a place in the queue: such a
// lease was missing from what operators see.
func TestSessionIDBeginsWithQ(t *testing.T) {
	inWorld(t, func(w *world) {
		w.session.id = "q" + w.session.id[1:]
		s := w.session.Semaphore("s")
		holder := w.acquire(s, terms(1))
		waiter, _ := w.waiting(s, terms(1))
		snap, err := w.session.store.Inspect(w.Context(), s.keys, true)
		if err != nil {
			w.Fatal(err)
		}
		if len(snap.Leases) != 1 || snap.Leases[0].ID != holder.Grant().ID {
			w.Errorf("leases: %+v, want %s", snap.Leases, holder.Grant().ID)
		}
		if len(snap.Queue) != 1 || snap.Queue[0].ID != waiter.id {
			w.Errorf("queue: %+v, want %s", snap.Queue, waiter.id)
		}
	})
}
