// Package look reads semaphores for those who watch and administer them, and deletes their keys. It
// takes part in no step of the protocol: what a step is, and what is stored, is package protocol's.
//
// A look is a script of its own, look.lua, which changes nothing, so that what it answers is of one
// moment, and a user who may only read can look. It neither removes what has expired nor lets
// anybody in: the next call of protocol.Store.Do does. Until then a Snapshot shows what is stored, and
// tells what of it has expired; Snapshot.Live leaves that out.
package look

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

//go:embed look.lua
var script string

var scriptHash = func() string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}()

// Reader reads the semaphores of a store. It is safe for concurrent use.
type Reader struct {
	store *protocol.Store
	first atomic.Int32 // the way that is tried first
}

// New returns a Reader. It sends nothing.
func New(store *protocol.Store) *Reader { return &Reader{store: store} }

// ways are the commands that run the script: by its hash, by its text where the server does not know
// the hash, and the two that are for users who may only read. Those are not tried first: Redis 6.2
// does not know them, and a client of a Cluster may send them to replicas, which lag behind.
var ways = [...]string{"evalsha", "eval", "evalsha_ro", "eval_ro"}

const (
	byHash   = 0
	readOnly = 2
)

// ask reads a page of so many members of each. What the server refuses only because of the way in
// which it was asked is asked again in another way. If timed is set, ask returns the server's time for
// all that, if the server told.
func (r *Reader) ask(ctx context.Context, all []*reading, way, count int, timed bool) (spent time.Duration, told bool) {
	if len(all) == 0 {
		return 0, timed
	}
	cmds := make([]*redis.Cmd, len(all))
	spent, told = inPipeline(ctx, r.store.Redis(), timed, func(pipe redis.Pipeliner) {
		for i, a := range all {
			cmds[i] = redis.NewCmd(ctx, r.args(a, way, count)...)
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
	})
	again := [len(ways)][]*reading{}
	for i, a := range all {
		if next := a.answered(cmds[i], way); next > way {
			again[next] = append(again[next], a)
		} else if way >= readOnly && a.err == nil {
			r.first.Store(readOnly)
		}
	}
	for next, some := range again {
		more, _ := r.ask(ctx, some, next, count, timed)
		spent += more
	}
	return spent, told
}

// args is the call of the script for the next page of a.
func (r *Reader) args(a *reading, way, count int) []any {
	text := scriptHash
	if way%2 != byHash {
		text = script
	}
	return append(append([]any{ways[way], text}, r.store.Keys(a.key)...), a.from, a.skip, count)
}

// answered notes the answer to a page that was asked for in this way. It returns the way in which
// to ask again; not above this one: that was the answer.
func (a *reading) answered(cmd *redis.Cmd, way int) (next int) {
	fields, err := cmd.Slice()
	switch {
	case way%2 == byHash && redis.HasErrorPrefix(err, "NOSCRIPT"):
		return way + 1
	case way >= readOnly && (redis.HasErrorPrefix(err, "NOPERM") || err != nil && strings.Contains(err.Error(), "nknown command")):
		return way // the first refusal tells more
	case way < readOnly && redis.HasErrorPrefix(err, "NOPERM"):
		next = readOnly
	}
	a.fields, a.err = fields, err
	return next
}

// inPipeline sends what fill queues. If timed is set it asks the server for its time before and
// after that, and returns the difference, if the server told.
func inPipeline(ctx context.Context, rdb redis.Cmdable, timed bool, fill func(redis.Pipeliner)) (spent time.Duration, told bool) {
	pipe := rdb.Pipeline()
	if !timed {
		fill(pipe)
		protocol.Execute(ctx, pipe)
		return 0, false
	}
	before := pipe.Time(ctx)
	fill(pipe)
	after := pipe.Time(ctx)
	protocol.Execute(ctx, pipe)
	return max(after.Val().Sub(before.Val()), 0), before.Err() == nil && after.Err() == nil
}

func corrupt(what, value string) error {
	return &protocol.Failure{Kind: protocol.ErrRejected, Detail: protocol.ErrCorrupt, Err: fmt.Errorf("%s %.80q", what, value)}
}
