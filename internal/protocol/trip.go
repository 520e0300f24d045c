package protocol

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Trip is one run of the script: operations on their way to the server, and back. Its
// outcome goes to a function, so that nothing has to wait for it: while Redis is silent,
// many thousand trips cost the memory of their operations, and no goroutines.
type Trip struct {
	store    *Store
	ctx      context.Context //nolint:containedctx // the trip's
	key      Key
	notAfter int64
	ops      []Op
	done     func(Reply, error)

	script *script
	cmd    onceLine
	stage  stage // guarded by the pipeline's mutex, if there is one
}

// stage is where a trip is.
type stage uint8

const (
	tripFresh stage = iota // it was not started
	tripWaits              // in this process, behind others
	tripSent               // or about to be
	tripDropped
)

// Trip returns a trip that executes ops, as Do does, once it is started. done is called once
// with what Do would return, unless Drop succeeds first. The ops must be left alone until then.
func (s *Store) Trip(ctx context.Context, k Key, notAfter int64, ops []Op, done func(Reply, error)) *Trip {
	return &Trip{store: s, ctx: ctx, key: k, notAfter: notAfter, ops: ops, done: done}
}

// Start puts the trip on its way. If a flight is returned, the caller must see to it that
// its Fly is called, in a goroutine that may block. If not, the trip travels with a flight
// that is under way, or it is over already: done may have been called.
func (st *Trip) Start() *Flight {
	if err := check(st.ops); err != nil {
		st.done(Reply{}, &Failure{Kind: ErrRejected, Err: err})
		return nil
	}
	pipe := st.store.pipe
	if pipe == nil || replicas(st.ops) > 0 {
		if pipe != nil && !pipe.launch(st) {
			return nil
		}
		return &Flight{alone: st}
	}
	st.script = st.store.step.Load()
	st.cmd = newOnceLine(st.ctx, st.args())
	return pipe.join(st)
}

// Drop ends a trip that has not left this process, and reports whether it did: then nothing
// was sent, and done is not called.
func (st *Trip) Drop() bool {
	return st.store.pipe != nil && st.store.pipe.drop(st)
}

// ErrUnsent is the failure of a trip that was dropped.
func ErrUnsent() *Failure { return &Failure{Kind: ErrRefused, Err: errUnsent} }

// errUnsent: the call's time was over before it was sent.
var errUnsent = errors.New("waited in this process for too long behind other calls")

// args encodes the call of the script.
func (st *Trip) args() []any {
	args := append(make([]any, 0, 12+len(st.ops)), "evalsha", st.script.sha)
	args = append(append(args, st.store.Keys(st.key)...), &bound{latest: st.notAfter})
	return appendOps(args, st.ops, st.store.owner)
}

// forgotten reports whether the server did not know the script. Then the command becomes one
// with the text.
func (st *Trip) forgotten() bool {
	if !redis.HasErrorPrefix(st.cmd.Err(), "NOSCRIPT") {
		return false
	}
	st.cmd = newOnceLine(st.ctx, st.script.whole(st.cmd.Args()))
	return true
}

// finish tells the outcome of the trip's command.
func (st *Trip) finish() {
	text, err := st.cmd.Result()
	if err != nil {
		err = classifyCall(err, st.cmd.Args())
	}
	st.answer(text, acks{}, err)
}

// answer tells the outcome of the step.
func (st *Trip) answer(text string, a acks, err error) {
	if err != nil {
		st.done(Reply{}, st.store.moving(err))
		return
	}
	r := Reply{Replicas: a.n, Unwaited: a.err}
	err = r.decode(text, st.ops)
	st.done(r, err)
}

// Flight is one or more trips that are sent together.
type Flight struct {
	alone *Trip // it needs commands of its own, or a client that has several servers

	pipe       *pipeline
	trips      []*Trip
	generation int
}

// Fly sends the flight, and what gathers meanwhile, and tells all trips their outcomes.
func (f *Flight) Fly() {
	if st := f.alone; st != nil {
		st.script = st.store.step.Load()
		text, acks, err := st.store.execute(st.ctx, st.script, st.key, st.args(), replicas(st.ops))
		st.answer(text, acks, err)
		return
	}
	for more := true; more; more = f.pipe.next(f) {
		f.call()
		f.pipe.land(f)
		for i, st := range f.trips {
			st.finish()
			f.trips[i] = nil
		}
	}
}

// call executes the commands of f; each has its own error. Where the server did not know the
// script, which is a refusal, the text follows.
func (f *Flight) call() {
	f.exec(f.trips)
	var again []*Trip
	for _, st := range f.trips {
		if st.forgotten() {
			again = append(again, st)
		}
	}
	f.exec(again)
}

func (f *Flight) exec(trips []*Trip) {
	switch len(trips) {
	case 0:
	case 1:
		_ = f.pipe.rdb.Process(trips[0].ctx, trips[0].cmd)
	default:
		pipe := f.pipe.rdb.Pipeline()
		for _, st := range trips {
			_ = pipe.Process(st.ctx, st.cmd) // only queues it
		}
		_, _ = pipe.Exec(patient(trips))
	}
}

// patient returns the context of the trip that waits longest, whose deadline may become that
// of the connection. The others are given up by their owners.
func patient(trips []*Trip) context.Context {
	most := trips[0]
	for _, st := range trips[1:] {
		end, ends := st.ctx.Deadline()
		if latest, limited := most.ctx.Deadline(); limited && (!ends || end.After(latest)) {
			most = st
		}
	}
	return most.ctx
}
