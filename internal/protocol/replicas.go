package protocol

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// mostWait bounds WAIT, which holds up whatever else the call carries. It is well
// below the read time-outs that clients use.
const mostWait = 500 * time.Millisecond

// acks is the answer to WAIT.
type acks struct {
	n   int
	err error // the server refused
}

// Replicas is how many replicas a call has to wait for. Then it holds up others that travel with it.
func Replicas(ops []Op) (most int) {
	for i := range ops {
		most = max(most, ops[i].Replicas)
	}
	return most
}

// execute runs the step and, if want is above 0, waits until so many replicas have what it
// wrote. WAIT is about the writes of its own connection, so the two are sent in one
// pipeline. A cluster client would send WAIT to any node, so there the pipeline is one of
// the node that has the keys.
func (s *Store) execute(ctx context.Context, step *script, k Key, args []any, want int) (string, acks, error) {
	if want == 0 {
		text, err := step.line(ctx, s.rdb, args)
		return text, acks{}, err
	}
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return step.runAndWait(ctx, s.rdb, args, want)
	}
	node, err := cluster.MasterForKey(ctx, k.State)
	if err != nil {
		return "", acks{}, &Failure{Kind: ErrRefused, Err: err}
	}
	text, a, err := step.runAndWait(ctx, node, args, want)
	if addr, ask := redis.IsAskError(err); ask { // until the slot is closed, which may take long
		if target := masterAt(ctx, cluster, addr); target != nil {
			return step.runAndWait(ctx, importing{target}, args, want)
		}
	}
	if redirected(err) {
		cluster.ReloadState(ctx)
	}
	return text, a, err
}

// masterAt returns the master with this address, or nil if none with slots has it.
func masterAt(ctx context.Context, cluster *redis.ClusterClient, addr string) *redis.Client {
	all, _ := Masters(ctx, cluster)                       // without them the call is refused, and made again
	bare := strings.NewReplacer("[", "", "]", "").Replace // Redis writes no brackets around an IPv6 address
	for _, m := range all {
		if bare(m.NodeAddress()) == bare(addr) {
			return m
		}
	}
	return nil
}

// importing is a node to which the keys of an open slot are moving.
type importing struct{ *redis.Client }

// Pipeline returns one whose next command may use such keys: ASKING is good for one.
func (i importing) Pipeline() redis.Pipeliner {
	p := i.Client.Pipeline()
	p.Do(context.Background(), "asking") // only put in line
	return p
}

// runAndWait is run with a WAIT behind the script.
func (sc *script) runAndWait(ctx context.Context, rdb redis.Cmdable, args []any, want int) (string, acks, error) {
	text, a, err := pipe(ctx, rdb, args, want)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		text, a, err = pipe(ctx, rdb, sc.whole(args), want)
	}
	if err != nil {
		return "", acks{}, classifyCall(err, args)
	}
	return text, a, nil
}

func pipe(ctx context.Context, rdb redis.Cmdable, args []any, want int) (string, acks, error) {
	cmd := newOnceLine(ctx, args)
	wait := newOnce(ctx, []any{"wait", want, waitFor(ctx).Milliseconds()})
	p := rdb.Pipeline()
	_, _ = p.Process(ctx, cmd), p.Process(ctx, wait) // only put in line
	Execute(ctx, p)
	text, err := cmd.Result()
	if err != nil {
		return "", acks{}, err
	}
	n, err := wait.Int()
	if _, refused := errors.AsType[redis.Error](err); refused {
		return text, acks{err: err}, nil // the step was done all the same
	}
	return text, acks{n: n}, err
}

// waitFor leaves half of the call's time to everything else. 0 would wait for ever.
func waitFor(ctx context.Context) time.Duration {
	most := mostWait
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/2)
	}
	return max(most, time.Millisecond)
}
