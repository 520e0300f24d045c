package worker

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/dev/verify/history"
)

// await waits for what time brings. Others are the first in the queue when one gives up, and nobody
// comes by whose call would do for them.
func (u *user) await(ctx context.Context) {
	if u.spec.Tries {
		if h := u.ask(ctx, history.Try, 1); h != nil {
			h.release()
		}
		pause(ctx, u.between(50*time.Millisecond, 150*time.Millisecond))
		return
	}
	if u.spec.Lines {
		u.tenant = []string{"", "one", "another"}[u.rng.IntN(3)]
	}
	patience := 3 * time.Second
	if u.one(4) && !u.spec.Settles { // who leaves would make up for what a settlement has to do
		patience = u.between(50*time.Millisecond, 400*time.Millisecond)
	}
	before, within := u.spec.Pauses && u.one(6), u.spec.Pauses && u.one(6)
	if before {
		u.pauseAll(ctx)
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h := u.ask(wait, history.Acquire, 1)
	switch {
	case h == nil:
	case u.spec.MaxHold > 0 && u.one(2):
		u.hang(ctx, h)
	default:
		if within {
			u.pauseAll(ctx)
		}
		h.hold(ctx, u.between(0, 30*time.Millisecond))
		if u.spec.Settles {
			h.spend(20, 16)
		}
		if u.spec.Settles && u.one(2) { // nobody else's release makes up for it
			h.hold(ctx, u.between(500*time.Millisecond, time.Second))
		}
		h.release()
	}
	pause(ctx, u.between(0, 30*time.Millisecond))
}

// hang keeps a lease without any sign of life until it is over, as a process does that hangs, and goes
// on like another process.
func (u *user) hang(ctx context.Context, h *holding) {
	u.own.Down()
	h.drop(ctx)
	client, rdb := u.client, u.rdb
	go func() { // it gives up telling the server
		_ = client.Close()
		_ = rdb.Close()
	}()
	opts := &redis.Options{Network: "unix", Addr: u.Socket}
	u.own = u.wrap(u.spec, opts, u.rng)
	u.rdb = redis.NewClient(opts)
	u.reopen()
}

// pauseAll stops all grants for a moment, as a program or as an operator, and records it.
func (u *user) pauseAll(ctx context.Context) {
	lasts := u.between(50*time.Millisecond, 400*time.Millisecond).Truncate(time.Millisecond)
	e := history.Event{At: history.Now(), Kind: history.Pause, Name: u.name(), Lasts: lasts}
	u.out.Write(e)
	in, err := berthadmin.New(u.rdb, berthadmin.Options{Prefix: u.Prefix})
	must(err)
	sem, err := u.client.Semaphore(e.Name, u.spec.Limit)
	must(err)
	if u.one(2) {
		err = in.PauseFor(ctx, e.Name, e.Lasts)
	} else {
		err = sem.Cooldown(ctx, e.Lasts)
	}
	e.Until = history.Now()
	e.Outcome, _, e.Text = outcome(err)
	u.out.Write(e)
}
