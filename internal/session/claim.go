package session

import (
	"errors"
	"fmt"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// state says where a claim is on its way.
//
//	state       means                                      leaves it by
//	asking      an acquire is on its way, outcome unknown   granted → held (or confirming), queued,
//	                                                        refused → ended, given up → leaving
//	queued      the server has it in the queue              granted → held or confirming, gone → asking
//	                                                        (a new id), evicted → ended, given up → leaving
//	confirming  granted, but for too short a time to be     renewed → held, gone → asking, given up or
//	            used yet, or not on enough replicas: a      too few replicas → leaving
//	            renewal is on its way
//	adopting    another process's lease, to become ours by  renewed → held, gone or failed → ended
//	            the renewal that is on its way
//	held        the holder may rely on it until trust       released → leaving, lost → lost
//	lost        the holder was told to stop; the server     released → leaving, or ended at once when the
//	            may still have it                           server no longer has it
//	leaving     a release or cancel is on its way; nobody   answered → ended
//	            relies on the claim any more
//	ended       nothing of it is left, here or there        -
type state int

const (
	asking state = iota
	queued
	confirming
	adopting
	held
	lost
	leaving
	ended
)

// Claim is one request for permits, from the first call to the end.
type Claim struct {
	sem     *Semaphore
	Terms   *protocol.Terms
	manual  bool          // its holder renews it, not the keeper
	patient bool          // whoever asks for it, or gives it back, waits for the answer in any case
	wake    chan struct{} // holds one signal: something below has changed

	// Guarded by sem.mu.
	state  state
	id     string
	token  int64
	slot   int
	limit  int           // in force at the grant
	sent   clock.Instant // when the request was sent that set its deadline as a waiter
	trust  clock.Instant // until when the holder may rely on it
	due    clock.Instant // next heartbeat or renewal; Never while one is on its way
	late   clock.Instant // until when a copy of its acquire may yet be executed; 0: there is none
	aboard bool          // an operation of it is in flight
	capped bool          // renewed up to its MaxHold: nothing can extend it
	place  Place
	err    error       // lost, ended: why
	last   error       // the last renewal's failure
	onEnd  func(error) // told once, when the holder can no longer rely on it
	places bool        // the owner wants to know its place
}

// Place is where a waiter stands.
type Place struct{ Ahead, Used, Limit, Waiting int }

// Refusal is a request that the server turned down. Nothing was taken.
type Refusal struct {
	protocol.Result
	Name   string
	Weight int
	Next   int64 // milliseconds until something may run out; 0: unknown
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("refused with code %d", r.Code) }

// Cause tells how a lease, or a place in the queue, was lost.
type Cause int

// The ways to lose a claim.
const (
	Untrusted Cause = iota // not renewed until the trust deadline
	Expired                // the server says that it has run out
	MaxHold                // it reached its cap
	Evicted                // an operator took it
)

// Lost is why a claim ended against its holder's will.
type Lost struct {
	Name, ID string
	Cause    Cause
	Err      error
}

// Error implements error.
func (l *Lost) Error() string { return fmt.Sprintf("lease %s lost (%d): %v", l.ID, l.Cause, l.Err) }

// Unwrap returns the last renewal's error, if that is why.
func (l *Lost) Unwrap() error { return l.Err }

// Unreplicated is why a grant was given back, or a renewal does not count.
type Unreplicated struct {
	Want, Got int
	Err       error // the server refused to count replicas
}

// Error implements error.
func (u *Unreplicated) Error() string { return fmt.Sprintf("%d of %d replicas", u.Got, u.Want) }

// ErrReleased: the claim was given back before.
var ErrReleased = errors.New("already given back")

// Grant is what a holder may know of its lease.
type Grant struct {
	ID    string
	Token int64
	Slot  int
	Limit int
}

// Grant returns the lease's particulars. They do not change while it is held.
func (c *Claim) Grant() Grant {
	c.sem.mu.Lock()
	defer c.sem.mu.Unlock()
	return Grant{ID: c.id, Token: c.token, Slot: c.slot, Limit: c.limit}
}

// Name returns the semaphore's name.
func (c *Claim) Name() string { return c.sem.name }

// Trust returns the instant until which the holder may rely on the lease, in
// the past when it no longer may.
func (c *Claim) Trust() clock.Instant {
	c.sem.mu.Lock()
	defer c.sem.mu.Unlock()
	if c.state != held {
		return 0
	}
	return c.trust
}

// Valid reports whether the holder may rely on the lease right now. It does not
// ask Redis: until the trust deadline nobody else can have the permit.
func (c *Claim) Valid() bool { return clock.Exact() < c.Trust() }

// OnEnd has f called once, with the cause, when the holder can no longer rely on
// the lease; at once if that is so already. f must not block.
func (c *Claim) OnEnd(f func(error)) {
	c.sem.mu.Lock()
	defer c.sem.unlock()
	if c.state == held {
		c.onEnd = f
		return
	}
	err := c.err
	c.sem.later(func() { f(err) })
}

// signal tells whoever waits for the claim to look at it.
func (c *Claim) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// margin is taken off a trust deadline: the server counts whole milliseconds,
// and two clocks may run apart by a hundredth at most.
func margin(ttl int64) int64 { return 1 + ttl/100 }
