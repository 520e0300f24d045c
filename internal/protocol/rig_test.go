package protocol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// failer is what *testing.T and *rapid.T have in common here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// start is the first moment of every test whose clock is set by hand.
var start = time.UnixMicro(1_790_000_000_000_123)

// rig is one semaphore on one server, with a store for each of several
// processes and a subscription to all their channels.
type rig struct {
	rdb    *redis.Client
	mr     *miniredis.Miniredis // nil: a real server
	prefix string
	stores []*Store
	key    Key
	sub    *redis.PubSub
	keeps  bool // the server evicts nothing: keys may carry a TTL
}

const processes = 3

func newRig(t testing.TB, rdb *redis.Client, mr *miniredis.Miniredis, prefix string, keeps bool) *rig {
	t.Helper()
	r := &rig{rdb: rdb, mr: mr, prefix: prefix, keeps: keeps}
	for i := range processes {
		s := NewStore(rdb, prefix, fmt.Sprintf("s%d", i), 100+i, "host")
		s.Evicting(!keeps)
		r.stores = append(r.stores, s)
	}
	r.key = r.stores[0].Key("name")
	r.sub = rdb.PSubscribe(t.Context(), prefix+":inbox:*")
	t.Cleanup(func() { _ = r.sub.Close() })
	if _, err := r.sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// embedded returns a rig on an embedded store whose clock stands at start.
func embedded(t testing.TB, keeps bool) *rig {
	t.Helper()
	mr, rdb := newEmbedded(t)
	return newRig(t, rdb, mr, "berth", keeps)
}

func newEmbedded(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	mr := miniredis.RunT(t)
	mr.SetTime(start)
	mr.ClockTTL(true)
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr(), ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return mr, rdb
}

// onServer returns a rig on the shared redis-server.
func onServer(t testing.TB, keeps bool) *rig {
	t.Helper()
	server := redistest.Shared(t)
	return newRig(t, server.Client(t, redistest.Patient), nil, server.Prefix(t), keeps)
}

// onBoth runs a test on an embedded store and on a real server.
func onBoth(t *testing.T, keeps bool, body func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); body(t, embedded(t, keeps)) })
	t.Run("real", func(t *testing.T) { t.Parallel(); body(t, onServer(t, keeps)) })
}

// everywhere runs a test on both kinds of server, where keys may carry a TTL and
// where they may not.
func everywhere(t *testing.T, body func(t *testing.T, r *rig)) {
	t.Helper()
	for _, keeps := range []bool{false, true} {
		t.Run(fmt.Sprintf("keeps=%v", keeps), func(t *testing.T) { onBoth(t, keeps, body) })
	}
}

// reset removes all that a former sequence has left.
func (r *rig) reset(t failer) {
	t.Helper()
	if err := r.rdb.Del(context.Background(), r.key.State, r.key.Order()).Err(); err != nil {
		t.Fatalf("%v", err)
	}
	r.notes(t)
}

// do runs ops for one of the processes; a failure ends the test.
func (r *rig) do(t failer, process int, ops ...Op) (Reply, []Result) {
	t.Helper()
	reply, err := r.stores[process].Do(context.Background(), r.key, 0, ops)
	if err != nil {
		t.Fatalf("%v: %v", opsString(ops), err)
	}
	return reply, resultsOf(ops)
}

// one runs one operation for the first process.
func (r *rig) one(t failer, op Op) Result {
	t.Helper()
	_, results := r.do(t, 0, op)
	return results[0]
}

func resultsOf(ops []Op) []Result {
	var out []Result
	for i := range ops {
		out = append(out, ops[i].Result)
	}
	return out
}

// notes returns what was published since the last time, line by line and
// sorted, by process. A message of its own marks the end.
func (r *rig) notes(t failer) map[string][]string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	barrier := r.prefix + ":inbox:barrier"
	if err := r.rdb.Publish(ctx, barrier, "").Err(); err != nil {
		t.Fatalf("%v", err)
	}
	heard := map[string][]string{}
	for {
		m, err := r.sub.ReceiveMessage(ctx)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if m.Channel == barrier {
			break
		}
		lines := strings.Split(m.Payload, "\n")
		if lines[0] != r.key.State {
			t.Fatalf("message %q does not begin with the key", m.Payload)
		}
		process := strings.TrimPrefix(m.Channel, r.prefix+":inbox:")
		heard[process] = append(heard[process], lines[1:]...)
	}
	for _, lines := range heard {
		slices.Sort(lines)
	}
	return heard
}

// dump is all that is stored of a semaphore.
type dump struct {
	fields map[string]string
	scores map[string]float64
	lapse  [2]time.Duration // TTL of the two keys; negative: none
}

func (r *rig) dump(t failer) dump { t.Helper(); return r.storedAs(t).expanded() }

// storedAs is the dump with a compact lease as it is.
func (r *rig) storedAs(t failer) dump {
	t.Helper()
	ctx := context.Background()
	pipe := r.rdb.Pipeline()
	fields, scores := pipe.HGetAll(ctx, r.key.State), pipe.ZRangeWithScores(ctx, r.key.Order(), 0, -1)
	a, b := pipe.PTTL(ctx, r.key.State), pipe.PTTL(ctx, r.key.Order())
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatalf("%v", err)
	}
	d := dump{fields: fields.Val(), scores: map[string]float64{}, lapse: [2]time.Duration{a.Val(), b.Val()}}
	for _, z := range scores.Val() {
		d.scores[z.Member.(string)] = z.Score
	}
	return d
}

// compactField is "state" of a lease that nobody else has come near.
var compactField = regexp.MustCompile(`(?s)^3 compact (\S+) (\d+) (\d+) (\d+) (\d+) (\d+) (\S+ .*)$`)

// expanded has, in place of a compact lease, the records that it stands for.
func (d dump) expanded() dump {
	m := compactField.FindStringSubmatch(d.fields["state"])
	if m == nil || len(d.fields)+len(d.scores) != 1 {
		return d
	}
	id, token, expires, limit, ttl, tail := m[1], m[2], m[4], m[5], m[6], m[7]
	deadline, _ := strconv.ParseInt(m[3], 10, 64)
	lapses := 1
	if expires == "0" {
		expires, lapses = strconv.FormatInt(deadline+60000, 10), 0
	}
	return dump{
		fields: map[string]string{
			"state": fmt.Sprintf("3 %s -1 0 0 1 1 0 0 1 %s %d %s %d 0 -", limit, token, deadline, expires, lapses),
			id:      fmt.Sprintf("h 1 0 %s 0 %s - %s", token, ttl, tail),
		},
		scores: map[string]float64{id: float64(deadline), note: place},
		lapse:  [2]time.Duration{d.lapse[0], d.lapse[0]},
	}
}

// state are the numbers of the field of that name; none where there are no keys.
func (d dump) state(t failer) State {
	t.Helper()
	text := d.fields["state"]
	if text == "" {
		return State{Pin: -1}
	}
	c := cursor{rest: text}
	s := c.state()
	if c.bad || c.rest != "" {
		t.Fatalf("state %q", text)
	}
	return s
}

func (d dump) exists() bool { return len(d.fields)+len(d.scores) > 0 }

// freeSlots are the members of the zset that stand for free slots.
func (d dump) freeSlots() (slots []int) {
	for member, score := range d.scores {
		if n, err := strconv.Atoi(member); err == nil && score == float64(n) {
			slots = append(slots, n)
		}
	}
	slices.Sort(slots)
	return slots
}

// String prints a dump the same way every time.
func (d dump) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(d.fields)) {
		fmt.Fprintf(&b, "%s = %s\n", k, d.fields[k])
	}
	for _, k := range slices.Sorted(maps.Keys(d.scores)) {
		fmt.Fprintf(&b, "%s @ %.0f\n", k, d.scores[k])
	}
	return b.String()
}

func opsString(ops []Op) string {
	var out []string
	for i := range ops {
		op := &ops[i]
		text := fmt.Sprintf("%c %s %s ttl=%v flag=%v n=%d %s %s", op.Verb, op.ID, op.To, op.TTL, op.Flag, op.N, op.Costs, op.Rates)
		if op.Terms != nil {
			text = fmt.Sprintf("A %s %+v", op.ID, *op.Terms)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// wantKind fails unless err is of the kind, and with the detail if there is one.
func wantKind(t failer, err, kind, detail error) {
	t.Helper()
	if !errors.Is(err, kind) || detail != nil && !errors.Is(err, detail) {
		t.Fatalf("error %v, want %v %v", err, kind, detail)
	}
}
