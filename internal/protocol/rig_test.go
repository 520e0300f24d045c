package protocol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/redistest"
)

// failer is what *testing.T and *rapid.T have in common here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// start is the first moment of every test whose clock is set by hand.
var start = time.UnixMicro(1_790_000_000_000_123)

// rig is one semaphore on one server, with a store for each of several
// sessions and an ear on all their channels.
type rig struct {
	rdb    *redis.Client
	mr     *miniredis.Miniredis // nil: a real server
	prefix string
	stores []*Store
	keys   Keys
	sub    *redis.PubSub
	keeps  bool // keys may carry a TTL
}

// form chooses how the script is called.
type form struct {
	keeps bool // the server keeps its keys: they may carry a TTL
	long  bool // the short way is closed
}

const sessions = 3

func newRig(t testing.TB, rdb *redis.Client, mr *miniredis.Miniredis, prefix string, f form) *rig {
	t.Helper()
	r := &rig{rdb: rdb, mr: mr, prefix: prefix, keeps: f.keeps}
	for i := range sessions {
		s := NewStore(rdb, prefix, fmt.Sprintf("s%d", i), 100+i, "host")
		s.Evicting(!f.keeps)
		if f.long {
			s.step.Store(stepFor(map[bool]string{false: evicts, true: keeps}[f.keeps] + "-"))
		}
		r.stores = append(r.stores, s)
	}
	r.keys = r.stores[0].Keys("name")
	r.sub = rdb.PSubscribe(t.Context(), prefix+":inbox:*")
	t.Cleanup(func() { _ = r.sub.Close() })
	if _, err := r.sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// embedded returns a rig on an embedded store whose clock stands at start.
func embedded(t testing.TB, f form) *rig {
	t.Helper()
	mr, rdb := newEmbedded(t)
	return newRig(t, rdb, mr, "berth", f)
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
func onServer(t testing.TB, f form) *rig {
	t.Helper()
	server := redistest.Shared(t)
	return newRig(t, server.Client(t), nil, server.Prefix(t), f)
}

// onBoth runs a test on an embedded store and on a real server.
func onBoth(t *testing.T, f form, body func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); body(t, embedded(t, f)) })
	t.Run("real", func(t *testing.T) { t.Parallel(); body(t, onServer(t, f)) })
}

// reset removes all that a former sequence has left.
func (r *rig) reset(t failer) {
	t.Helper()
	if err := r.rdb.Del(context.Background(), r.keys.State, r.keys.Order).Err(); err != nil {
		t.Fatalf("%v", err)
	}
	r.notes(t)
}

// do runs ops for one of the sessions; a failure ends the test.
func (r *rig) do(t failer, session int, ops ...Op) (Reply, []Result) {
	t.Helper()
	reply, err := r.stores[session].Do(context.Background(), r.keys, 0, ops)
	if err != nil {
		t.Fatalf("%v: %v", opsString(ops), err)
	}
	return reply, resultsOf(ops)
}

// one runs one operation for the first session.
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
// sorted, by owner. A message of its own marks the end.
func (r *rig) notes(t failer) map[string][]string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
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
		if lines[0] != r.keys.State {
			t.Fatalf("message %q does not begin with the key", m.Payload)
		}
		owner := r.ownerOf(m.Channel)
		heard[owner] = append(heard[owner], lines[1:]...)
	}
	for _, lines := range heard {
		slices.Sort(lines)
	}
	return heard
}

func (r *rig) ownerOf(channel string) string {
	for _, s := range r.stores {
		if s.Channel(r.keys) == channel {
			return ownerOf(s)
		}
	}
	return channel
}

// ownerOf is who uses a store: session/pid/host.
func ownerOf(s *Store) string { return s.owner.full }

// recorded is how the record of id names its owner.
func recorded(owner, id string) string {
	session, _, _ := strings.Cut(id, ".")
	if rest, ok := strings.CutPrefix(owner, session+"/"); ok {
		return "/" + rest
	}
	return owner
}

// dump is all that is stored of a semaphore.
type dump struct {
	fields map[string]string
	scores map[string]float64
	lapse  [2]time.Duration // TTL of the two keys; negative: none
}

func (r *rig) dump(t failer) dump {
	t.Helper()
	ctx := context.Background()
	pipe := r.rdb.Pipeline()
	fields, scores := pipe.HGetAll(ctx, r.keys.State), pipe.ZRangeWithScores(ctx, r.keys.Order, 0, -1)
	a, b := pipe.PTTL(ctx, r.keys.State), pipe.PTTL(ctx, r.keys.Order)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatalf("%v", err)
	}
	d := dump{fields: fields.Val(), scores: map[string]float64{}, lapse: [2]time.Duration{a.Val(), b.Val()}}
	for _, z := range scores.Val() {
		d.scores[z.Member.(string)] = z.Score
	}
	return d.unfolded()
}

// unfolded has, in place of a folded semaphore's field, what it stands for.
func (d dump) unfolded() dump {
	f, ok := unfold(d.fields["settings"])
	if !ok || len(d.fields)+len(d.scores) != 1 {
		return d
	}
	return dump{
		fields: map[string]string{"note": legend, "settings": f.settings, "counts": f.counts, f.id: f.record},
		scores: map[string]float64{f.id: float64(f.deadline), note: place},
		lapse:  [2]time.Duration{d.lapse[0], d.lapse[0]},
	}
}

// counts are the numbers of the field of that name.
type counts struct {
	used, holders, waiting, tombs, slots int
	last, nearest, expires               int64
}

func (d dump) counts(t failer) (c counts) {
	t.Helper()
	text := d.fields["counts"]
	if text == "" {
		return c
	}
	v, ok := numbers(text, 8)
	if !ok {
		t.Fatalf("counts %q", text)
	}
	return counts{int(v[0]), int(v[1]), int(v[2]), int(v[3]), int(v[4]), v[5], v[6], v[7]}
}

func (d dump) exists() bool { return len(d.fields)+len(d.scores) > 0 }

// freeSlots are the members of the zset that stand for a free slot.
func (d dump) freeSlots() (slots []int) {
	for m, score := range d.scores {
		if n, err := strconv.Atoi(strings.TrimPrefix(m, "s")); err == nil && m[0] == 's' && score == float64(n) {
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
		text := fmt.Sprintf("%s %s ttl=%v flag=%v n=%d", op.Verb, op.ID, op.TTL, op.Flag, op.N)
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
