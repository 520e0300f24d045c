package protocol

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// The parts of transition, in their order. Each takes the call to its end or
// leaves it, with nothing changed but a folded semaphore unfolded, to those behind it.
var (
	//go:embed transition/begin.lua
	begin string
	//go:embed transition/folded.lua
	foldedWay string
	//go:embed transition/crowd.lua
	crowdWay string
	//go:embed transition/short.lua
	shortWay string
	//go:embed transition/general.lua
	generalWay string
	//go:embed transition/operations.lua
	operations string

	transition = begin + foldedWay + crowdWay + shortWay + generalWay + operations

	//go:embed inspect.lua
	inspect string
)

// Store runs the protocol's scripts on one Redis for one session.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
	owner  owner
	step   atomic.Pointer[script]
	look   script
	steps  processor // where steps go: to rdb, or to a line before it
}

// processor executes commands.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// NewStore returns the store of one session, an id that no other process has,
// run by process pid on host. It sends nothing.
func NewStore(rdb redis.UniversalClient, prefix, session string, pid int, host string) *Store {
	s := &Store{rdb: rdb, prefix: prefix, look: newScript(inspect)}
	s.steps = rdb
	if single, ok := rdb.(*redis.Client); ok { // with several nodes, one could hold up the others
		s.steps = &line{rdb: single}
	}
	s.step.Store(stepFor(notYetSeen))
	mark, rest := "", fmt.Sprintf("/%d/%s", pid, host)
	if s.Sharded() {
		mark = ":"
	}
	s.owner = owner{session: session, full: mark + session + rest, own: mark + rest}
	return s
}

// What is known of the server's eviction policy. Where it evicts, keys must not
// carry a TTL while they matter; where that is not known, their TTL stays as it is.
const (
	evicts     = "0"
	keeps      = "1"
	notYetSeen = "?"
)

// stepFor is the script of transition for a server of which so much is known.
func stepFor(policy string) *script {
	return new(newScript("local POLICY = '" + policy + "'\n" + transition))
}

// Evicting tells the store what Evicts said, or what to assume when it failed.
func (s *Store) Evicting(yes bool) {
	if yes {
		s.step.Store(stepFor(evicts))
	} else {
		s.step.Store(stepFor(keeps))
	}
}

// Sharded reports whether messages go through shard channels, one for each
// semaphore, as they must in a Redis Cluster.
func (s *Store) Sharded() bool {
	_, ok := s.rdb.(*redis.ClusterClient)
	return ok
}

// Bounded reports whether the client itself ends a call that gets no answer within d.
func (s *Store) Bounded(d time.Duration) bool {
	single, ok := s.rdb.(*redis.Client)
	if !ok {
		return false
	}
	o := single.Options()
	return o.ReadTimeout > 0 && o.ReadTimeout <= d && o.WriteTimeout > 0 && o.WriteTimeout <= d
}

// Channel is where the session hears of the semaphore with these keys; without
// a cluster it is the same for all.
func (s *Store) Channel(k Keys) string {
	if s.Sharded() {
		return k.State + ":" + s.owner.session
	}
	return s.prefix + ":inbox:" + s.owner.session
}

// Keys are the two keys of a semaphore. They share a hash tag, so they live in
// one slot of a cluster.
type Keys struct {
	State, Order string
	call         []any // the same as arguments, with their number
}

// Keys returns the keys of the semaphore called name.
func (s *Store) Keys(name string) Keys {
	state := s.prefix + ":{" + name + "}"
	order := state + ":order"
	return Keys{State: state, Order: order, call: []any{2, state, order}}
}

// Name returns the name of the semaphore whose state key this is.
func (s *Store) Name(state string) (string, bool) {
	name, ok := strings.CutPrefix(state, s.prefix+":{")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, "}")
}

// Reply is what every call answers, whatever its operations.
type Reply struct {
	Now     int64 // server time in milliseconds
	Next    int64 // server time at which something may run out; 0: never
	Used    int   // permits in use now
	Waiting int   // how many are in the queue now
	More    bool  // the work was bounded: call again at once

	Replicas int   // how many have what the call wrote; 0 unless an Op asked
	Unwaited error // the server refused to count them
}

// Prepare makes the encoding of t once, for many acquires by this store and no
// other. It returns t.
func (s *Store) Prepare(t *Terms) *Terms {
	t.head = t.encode(s.owner.own)
	return t
}

// Do executes ops, in order, as one atomic step; notAfter is the latest server
// time in milliseconds at which that may happen, 0 for any. On success every
// Op has its Result. On failure none has, and the error is a *Failure that
// tells whether it did not happen or is unknown; a call that came too late is
// refused, with Reply.Now set. The client's own retries are switched off: only
// the caller knows what a second copy may do.
func (s *Store) Do(ctx context.Context, k Keys, notAfter int64, ops []Op) (Reply, error) {
	step := s.step.Load()
	args := append(make([]any, 0, 12+len(ops)), "evalsha", step.sha)
	args = append(append(args, k.call...), notAfter)
	text, acks, err := s.execute(ctx, *step, k, appendOps(args, ops, &s.owner), replicas(ops))
	if err != nil {
		return Reply{}, err
	}
	r := Reply{Replicas: acks.n, Unwaited: acks.err}
	return r, r.decode(text, ops)
}

// decode reads what the script answered to ops. A reply that does not fit leaves
// them without results.
func (r *Reply) decode(text string, ops []Op) error {
	c := cursor{rest: text}
	us := c.next()*1_000_000 + c.next()
	r.Now = us / 1000
	status := c.next()
	if status == 2 && c.rest == "" && !c.bad && len(ops) == 1 && ops[0].granted(us) {
		r.Used, r.Next = 1, r.Now+ops[0].Result.Remaining.Milliseconds()
		return nil
	}
	r.More = status == 1
	r.Used = c.int()
	c.skip(1) // holders
	r.Waiting = c.int()
	c.skip(3) // tombstones, slots, last
	r.Next = c.next()
	c.skip(1) // expires
	if status == -1 && c.rest == "" && !c.bad {
		return &Failure{Kind: ErrRefused, Err: errLate}
	}
	for i := range ops {
		c.decode(&ops[i])
	}
	if c.bad || c.run > 0 || c.rest != "" || status != 0 && status != 1 {
		for i := range ops {
			ops[i].Result = Result{}
		}
		return &Failure{Kind: ErrUnknown, Err: fmt.Errorf("reply of %d bytes does not fit the request", len(text))}
	}
	return nil
}

// script is a Lua script that is called by its hash.
type script struct {
	text string
	sha  any // string: an argument, so that no call makes it one
}

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// run executes the script and returns its reply, whatever that holds.
func (sc script) run(ctx context.Context, rdb redis.UniversalClient, args []any) ([]any, error) {
	cmd, err := process(ctx, sc, rdb, args, newOnce)
	if err != nil {
		return nil, err
	}
	fields, err := cmd.Slice()
	if err != nil {
		return nil, &Failure{Kind: ErrUnknown, Err: err}
	}
	return fields, nil
}

// line executes the script and returns its reply, which is one string.
func (sc script) line(ctx context.Context, rdb processor, args []any) (string, error) {
	cmd, err := process(ctx, sc, rdb, args, newOnceLine)
	if err != nil {
		return "", err
	}
	return cmd.Val(), nil
}

// process executes the script as a command that command makes; args[0] is "evalsha".
// Where the server does not know the hash (it restarted, or SCRIPT FLUSH), which
// is a refusal, the text follows.
func process[C redis.Cmder](
	ctx context.Context, sc script, rdb processor, args []any, command func(context.Context, []any) C,
) (C, error) {
	cmd := command(ctx, args)
	err := rdb.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = command(ctx, sc.whole(args))
		err = rdb.Process(ctx, cmd)
	}
	if err != nil {
		return cmd, classify(err)
	}
	return cmd, nil
}

// whole turns a call by hash into one with the text.
func (sc script) whole(args []any) []any { return append([]any{"eval", sc.text}, args[2:]...) }

// once and onceLine are commands that go-redis must not repeat by itself: it
// would report success for a script that ran twice.
type (
	once     struct{ *redis.Cmd }
	onceLine struct{ *redis.StringCmd }
)

func newOnce(ctx context.Context, args []any) once { return once{redis.NewCmd(ctx, args...)} }

func newOnceLine(ctx context.Context, args []any) onceLine {
	return onceLine{redis.NewStringCmd(ctx, args...)}
}

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// NoRetry implements redis.Cmder.
func (onceLine) NoRetry() bool { return true }

// Evicts asks the server whether memory pressure may delete keys, and with which
// policy. An error means that it is not known.
func (s *Store) Evicts(ctx context.Context) (bool, string, error) {
	info, err := s.rdb.Info(ctx, "memory").Result()
	if err != nil {
		return true, "", err
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return policy != "noeviction", policy, nil
		}
	}
	return true, "", errors.New("INFO memory names no maxmemory_policy")
}
