package local

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

const (
	// beginners is how many clients may begin at the same time. Of a thousand at once, none
	// would be answered before it gave up and asked again, which is more work for all.
	beginners = 8
	// mostBeginning is how long a client counts as one that begins. One that is suspended
	// must not keep others out.
	mostBeginning = 10 * time.Second
	// enterCommand is answered when the client may begin. It has begun when it hangs up.
	enterCommand = "BERTH.ENTER"
)

// door lets clients in, a few at a time and in the order in which they came.
type door struct {
	turns  chan struct{} // has an element for each client that may come in
	closed <-chan struct{}
	most   time.Duration // mostBeginning
}

func newDoor(closed <-chan struct{}) *door {
	d := &door{turns: make(chan struct{}, beginners), closed: closed, most: mostBeginning}
	for range beginners {
		d.turns <- struct{}{}
	}
	return d
}

// enter waits until a client may begin, or until the door is closed: then leave is nil.
func (d *door) enter() (leave func()) {
	select {
	case <-d.turns:
	case <-d.closed:
		return nil
	}
	begun := sync.OnceFunc(func() { d.turns <- struct{}{} })
	overdue := time.AfterFunc(d.most, begun)
	return func() {
		overdue.Stop()
		begun()
	}
}

// serve is enterCommand.
func (d *door) serve(c *server.Peer, _ string, _ []string) {
	if leave := d.enter(); leave != nil {
		c.OnDisconnect(leave)
		c.WriteOK()
	}
}

// Enter starts the store if it does not run, and waits until the store has time for this
// process, for as long as ctx and the store's process live. The caller must call leave when
// its first request was answered.
func (s *Store) Enter(ctx context.Context) (leave func(), err error) {
	for {
		conn, err := s.Dial(ctx, "", "")
		if err != nil {
			return nil, err
		}
		// Any answer will do: a store of an older version knows no door, and refuses nobody.
		_, err = ask(ctx, conn, enterCommand)
		if err == nil {
			return sync.OnceFunc(func() { conn.Close() }), nil
		}
		conn.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("local store: %w", context.Cause(ctx))
		}
		// It has ended. The next Dial starts another one.
	}
}
