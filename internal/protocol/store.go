package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// client is the name and version of this implementation in every record, for operators to
// see which clients share a semaphore.
const client = "go0.1"

// Store runs the protocol's scripts on one Redis for one process.
type Store struct {
	rdb     redis.UniversalClient
	prefix  string
	channel string // of the process
	owner   string // as records name it
	step    atomic.Pointer[script]

	both       atomic.Bool // calls declare both keys of a semaphore
	undeclared func()      // called when they begin to, because the server wants it
}

// NewStore returns the store of a process, which runs as pid on host. The ids of its
// requests begin with channel and a dot. Until Evicting is called, it assumes that the
// server evicts keys with a TTL. NewStore sends nothing.
func NewStore(rdb redis.UniversalClient, prefix, channel string, pid int, host string) *Store {
	s := &Store{rdb: rdb, prefix: prefix, channel: channel, undeclared: func() {}}
	s.both.Store(!s.Sharded())
	s.step.Store(whereKeysMayGo)
	s.owner = fmt.Sprintf("%d/%s;%s", pid, host, client)
	if s.Sharded() {
		s.owner = ":" + s.owner
	}
	return s
}

// Evicting sets whether the server evicts keys with a TTL, as Evicts returned it.
func (s *Store) Evicting(yes bool) {
	if yes {
		s.step.Store(whereKeysMayGo)
	} else {
		s.step.Store(whereKeysStay)
	}
}

// OnUndeclared has f called when a Cluster first refuses a call because it wants all keys of
// a script declared. From then on calls declare both, at a price: while a slot moves, what
// needs one of its keys alone is refused as well, until the move is over. It must be called
// before the first call.
func (s *Store) OnUndeclared(f func()) { s.undeclared = f }

// Key names a semaphore in Redis: its hash, and with a suffix its sorted set,
// which have the same hash tag and so live in one slot of a cluster.
type Key struct {
	State     string
	one, both []any // the number of keys, and the keys
}

// Order is the name of the sorted set.
func (k Key) Order() string { return k.State + orderSuffix }

const orderSuffix = ":order"

// Key returns the key of the semaphore called name.
func (s *Store) Key(name string) Key {
	state := s.prefix + ":{" + name + "}"
	return Key{State: state, one: []any{1, state}, both: []any{2, state, state + orderSuffix}}
}

// Keys are those that a call declares. Outside a Cluster that is both; in one, of two keys
// that are in an open slot one may be missing, and then the call is refused.
func (s *Store) Keys(k Key) []any {
	if s.both.Load() {
		return k.both
	}
	return k.one
}

// Name returns the name of the semaphore whose hash this is.
func (s *Store) Name(state string) (string, bool) {
	name, ok := strings.CutPrefix(state, s.prefix+":{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, "}")
}

// AllKeys is the pattern that matches the keys of all semaphores.
func (s *Store) AllKeys() string { return s.prefix + ":{*" }

// Redis is the client that the store uses.
func (s *Store) Redis() redis.UniversalClient { return s.rdb }

// Prepare encodes t once for many acquires, which must be by this store. It returns t.
func (s *Store) Prepare(t *Terms) *Terms {
	t.head = t.encode(s.owner)
	return t
}

// Do executes ops as one atomic step: in order, but acquires after all others. It runs at
// a server time of notAfter (milliseconds) at the latest; 0 is any time. On success every
// Op has its Result. On failure none has, and the error is a *Failure, which tells whether
// the step did not happen or its outcome is unknown; a call that came too late is refused,
// with Reply.Now set. A call that names an id twice, lacks one, or has more than MaxIDs is
// rejected with ErrRequest and not sent. go-redis does not retry the call: only the caller
// knows what a second copy may do.
func (s *Store) Do(ctx context.Context, k Key, notAfter int64, ops []Op) (Reply, error) {
	if err := check(ops); err != nil {
		return Reply{}, &Failure{Kind: ErrRejected, Err: err}
	}
	step := s.step.Load()
	text, a, err := s.execute(ctx, step, k, s.args(step, k, notAfter, ops), Replicas(ops))
	return s.reply(text, a, err, ops)
}

// Failed turns the error of a command that reads or deletes a semaphore's keys, or is about what
// they hold, into a *Failure, as Do does with its own.
func (s *Store) Failed(err error) error {
	if _, ok := errors.AsType[*Failure](err); !ok {
		err = classify(err)
	}
	return s.moving(err)
}

// args encodes a call of the script.
func (s *Store) args(step *script, k Key, notAfter int64, ops []Op) []any {
	args := append(make([]any, 0, 12+len(ops)), "evalsha", step.sha)
	args = append(append(args, s.Keys(k)...), &bound{latest: notAfter})
	return appendOps(args, ops, s.owner)
}

// reply decodes the answer to a call.
func (s *Store) reply(text string, a acks, err error, ops []Op) (Reply, error) {
	if err != nil {
		return Reply{}, s.moving(err)
	}
	r := Reply{Replicas: a.n, Unwaited: a.err}
	err = r.decode(text, ops)
	return r, err
}

// Call is a call of Do, and its outcome.
type Call struct {
	Key      Key
	NotAfter int64
	Ops      []Op // none of which waits for replicas

	Reply Reply
	Err   error
}

// DoAll makes calls for semaphores of one server, which travel together: it returns when all have
// their outcomes. docs/decisions/0010-calls-travel-together.md tells what that gains.
func (s *Store) DoAll(ctx context.Context, calls []*Call) {
	if len(calls) == 1 {
		c := calls[0]
		c.Reply, c.Err = s.Do(ctx, c.Key, c.NotAfter, c.Ops)
		return
	}
	step, pipe := s.step.Load(), s.rdb.Pipeline()
	cmds := make([]onceLine, len(calls))
	for i, c := range calls {
		cmds[i] = newOnceLine(ctx, s.args(step, c.Key, c.NotAfter, c.Ops))
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	Execute(ctx, pipe)
	for i, c := range calls {
		text, err := cmds[i].Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") { // a refusal; the first of them teaches the server
			c.Reply, c.Err = s.Do(ctx, c.Key, c.NotAfter, c.Ops)
			continue
		}
		if err != nil {
			err = classifyCall(err, cmds[i].Args())
		}
		c.Reply, c.Err = s.reply(text, acks{}, err, c.Ops)
	}
}

// Execute sends what pipe has. Each command has its own error then: where the server refuses the
// connection, as for a wrong password, go-redis 9.22 tells that to none of them.
func Execute(ctx context.Context, pipe redis.Pipeliner) {
	commands, err := pipe.Exec(ctx)
	for _, c := range commands {
		if c.Err() != nil {
			return
		}
	}
	for _, c := range commands {
		c.SetErr(err)
	}
}

// moving turns what a call meets in a cluster while a slot moves into a passing refusal. One
// of the two keys may have moved and the other not; and nodes may redirect a call to each
// other for longer than go-redis follows.
func (s *Store) moving(err error) error {
	f, ok := errors.AsType[*Failure](err)
	if ok && s.Sharded() && (f.Heals > 0 || redirected(f.Err)) {
		f.Kind = ErrRefused
	}
	if ok && s.Sharded() && errors.Is(f.Detail, undeclared) { // the next one declares both
		f.Kind = ErrRefused
		if s.both.CompareAndSwap(false, true) {
			s.undeclared()
		}
	}
	return err
}

// redirected reports whether err is a cluster node's word that another has the slot.
func redirected(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")
}

// Evicts asks the server for its eviction policy, and reports whether memory pressure
// deletes only keys with a TTL. Where it can delete any key a TTL does no harm, and removes
// the other key if only one was deleted. In a Cluster all masters are asked: one that
// deletes keys with a TTL is enough, and the policy is the one that can delete most. An
// error means that the policy is not known.
func (s *Store) Evicts(ctx context.Context) (evicts bool, policy string, err error) {
	nodes := []redis.Cmdable{s.rdb}
	if c, ok := s.rdb.(*redis.ClusterClient); ok { // it would ask any one of its nodes
		all, err := Masters(ctx, c)
		if err != nil {
			return true, "", err
		}
		nodes = nil
		for _, m := range all {
			nodes = append(nodes, m)
		}
	}
	for _, node := range nodes {
		one, err := policyOf(ctx, node)
		if err != nil {
			return true, "", err
		}
		evicts = evicts || strings.HasPrefix(one, "volatile")
		if policy == "" || policy == "noeviction" || strings.HasPrefix(one, "allkeys") {
			policy = one
		}
	}
	return evicts, policy, nil
}

func policyOf(ctx context.Context, rdb redis.Cmdable) (string, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return policy, nil
		}
	}
	return "", errors.New("INFO memory names no maxmemory_policy")
}

// Masters returns the nodes that have slots. The cluster is asked for them anew.
func Masters(ctx context.Context, c *redis.ClusterClient) (all []*redis.Client, err error) {
	var mu sync.Mutex
	err = c.ForEachMaster(ctx, func(_ context.Context, m *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, m)
		return nil
	})
	return all, err
}
