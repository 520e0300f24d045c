// Package local is the store that berth uses when no Redis is configured: an
// embedded one, shared by this user's processes on this machine.
//
// One process per user serves it on a unix socket in a directory that only the
// user can enter. Whoever finds nobody there starts it; it goes when it has
// been idle. Two locks make that free of races:
//
//	start.lock  held by whoever is about to start a store. The loser waits and
//	            then finds the winner's socket.
//	store.lock  held by a store from before it listens until it has ended. A
//	            successor waits for it, so that there is never a second store
//	            with a state of its own.
//
// A store that goes closes its socket first. A client whose connection falls
// into that moment gets no answer to the PING with which every connection
// begins, and starts over with the lock.
//
// The store keeps nothing on disk. It stays while anything is held, queued,
// pinned or paused, whether or not anybody is connected; if it is killed, all
// leases are lost, which their holders hear when they connect to the next one.
package local
