// Package local is the store that berth uses when no Redis is configured: an embedded one,
// shared by this user's processes on this machine.
//
// One process per user serves the store on a unix socket in a directory that only the user
// can enter. A client that finds no store starts one; it ends when it has been idle for a
// while. Two locks prevent races:
//
//	start.lock  held by a client that is about to start a store. Others wait for the
//	            lock, and then find the socket.
//	store.lock  held by a store from before it listens until it has ended. A
//	            successor waits for it, so that there are never two stores with
//	            different states.
//
// While the store's process lives, it is waited for: it has the lock, or a connection to it
// that has not ended. On a busy machine its answers may be late, but they come. So that a
// thousand commands at once do not give up one after the other and ask again, a command first
// waits at the store's door, which a few pass at a time (door.go).
//
// A store that ends closes its socket first. A client that connects at that moment gets no
// answer to the PING with which every connection begins, and starts over with the lock.
//
// The store keeps nothing on disk. It stays while anything is held, queued, pinned or
// paused, even without connections. If it is killed all leases are lost, which their
// holders learn when they connect to the next store.
package local
