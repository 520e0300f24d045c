package protocol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// How operations become arguments, and a reply becomes results.

// canned is a client whose every command is answered without a network: by err,
// or by a reply.
func canned(t testing.TB, reply any, err error) *Store {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(cannedReply{reply, err})
	return NewStore(rdb, "berth", "s0", 1, "host")
}

type cannedReply struct {
	reply any
	err   error
}

func (cannedReply) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { panic("the network was used") }
}

func (cannedReply) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("a pipeline was used") }
}

func (c cannedReply) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c.err != nil {
			cmd.SetErr(c.err)
			return c.err
		}
		switch cmd := cmd.(type) {
		case onceLine:
			text, ok := c.reply.(string)
			if !ok {
				cmd.SetErr(fmt.Errorf("redis: can't parse reply: %v", c.reply))
			}
			cmd.SetVal(text)
			return cmd.Err()
		case once:
			cmd.SetVal(c.reply)
		case *redis.Cmd:
			cmd.SetVal(c.reply)
		}
		return nil
	}
}

// TestOpsSurviveTheWire reads the arguments as the script does.
func TestOpsSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Op {
			return genBatch.Filter(func(ops []Op) bool { return len(ops) > 0 }).Draw(t, "ops")[0]
		})).Draw(t, "ops")
		args := textsOf(appendOps(nil, ops, someone))
		if got, want := opsString(parseArgs(t, args)), opsString(ops); got != want {
			t.Fatalf("arguments %q\nread as %s\nwant    %s", args, got, want)
		}
	})
}

// TestPreparedForItsOwn: terms that a store has prepared name its session where an
// id does not.
func TestPreparedForItsOwn(t *testing.T) {
	t.Parallel()
	store := NewStore(nil, "berth", "s0", 1, "host")
	for id, want := range map[string]string{"s0.1": " /1/host ", "s1.1": " s0/1/host ", "s00.1": " s0/1/host "} {
		args := textsOf(appendOps(nil, []Op{{Verb: Acquire, ID: id, Terms: store.Prepare(terms(3))}}, &store.owner))
		if !strings.Contains(args[0], want) {
			t.Errorf("%s: %q does not contain %q", id, args[0], want)
		}
	}
}

func textsOf(args []any) (texts []string) {
	for _, a := range args {
		texts = append(texts, fmt.Sprint(a))
	}
	return texts
}

var someone = &owner{session: "s0", full: "s0/1/host", own: "/1/host"}

// parseArgs is the reverse of appendOps.
func parseArgs(t failer, args []string) (ops []Op) {
	t.Helper()
	switch len(args) {
	case 1:
		args = append(args, "0")
	case 2:
		args = []string{args[0], "1", args[1]}
	}
	for len(args) > 0 {
		if len(args) < 2 || args[0] == "" {
			t.Fatalf("not a group: %q", args)
		}
		op, by := parseHead(args[0])
		count := number(args[1])
		args = args[2:]
		for _, id := range args[:count] {
			if by != "" {
				mustBe(by, someone.of(id))
			}
		}
		if !op.Verb.named() {
			ops = append(ops, op)
		}
		ops = append(ops, each(op, args[:count]...)...)
		args = args[count:]
	}
	return ops
}

// parseHead returns an operation, and its owner where a head names one.
func parseHead(head string) (op Op, by string) {
	op = Op{Verb: Verb(head[:1])}
	p := strings.SplitN(head[1:], " ", 10)
	switch op.Verb {
	case Acquire:
		by = p[8]
		op.Terms = &Terms{
			Wait: p[0] == "1", Weight: number(p[1]), TTL: millis(p[2]), HeadStart: millis(p[3]), MaxHold: millis(p[4]),
			Limit: number(p[5]), Heartbeat: millis(p[6]), QueueLimit: number(p[7]), Label: p[9],
		}
	case Heartbeat:
		op.TTL, op.Flag = millis(p[0]), p[1] == "1"
	case Renew:
		by = p[1]
		op.TTL = millis(p[0])
	case Release, Evict, Pause:
		op.Flag = p[0] == "1"
	default:
		op.N = number(p[0])
	}
	return op, by
}

func mustBe(got, want string) {
	if got != want {
		panic(got + " is not " + want)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func millis(s string) time.Duration { return milliseconds(int64(number(s))) }

// TestNeighboursShareArguments: that is what makes big batches cheap.
func TestNeighboursShareArguments(t *testing.T) {
	t.Parallel()
	a, b, other := terms(3), terms(3), terms(4)
	for _, test := range []struct {
		ops  []Op
		args int
	}{
		{[]Op{{Verb: Acquire, ID: "1", Terms: a}, {Verb: Acquire, ID: "2", Terms: b}}, 2 + 2},
		{[]Op{{Verb: Acquire, ID: "1", Terms: a}, {Verb: Acquire, ID: "2", Terms: other}}, 2 * (2 + 1)},
		{[]Op{{Verb: Acquire, ID: "1", Terms: a}, {Verb: Release, ID: "2"}, {Verb: Acquire, ID: "3", Terms: a}}, 3 + 3 + 3},
		{[]Op{{Verb: Release, ID: "1"}, {Verb: Release, ID: "2", Flag: true}}, 3 + 3},
		{[]Op{{Verb: Renew, ID: "1", TTL: 1e9}, {Verb: Renew, ID: "2", TTL: 1e9}, {Verb: Renew, ID: "3", TTL: 2e9}}, 4 + 3},
		{[]Op{{Verb: Heartbeat, ID: "1", TTL: 1e9}, {Verb: Heartbeat, ID: "2", TTL: 1e9, Flag: true}}, 3 + 3},
		{[]Op{{Verb: Pin, N: 1}, {Verb: Pin, N: 1}}, 2 + 2},
		{nil, 0},
	} {
		if args := appendOps(nil, test.ops, someone); len(args) != test.args {
			t.Errorf("%s became %d arguments, want %d: %q", opsString(test.ops), len(args), test.args, args)
		}
	}
}

// sampleOps has one operation of every verb.
func sampleOps() []Op {
	var ops []Op
	for _, verb := range []Verb{Acquire, Heartbeat, Renew, Release, Evict, Resize, Pin, Pause} {
		ops = append(ops, Op{Verb: verb, ID: "s0.1", Terms: terms(3), TTL: time.Second})
	}
	return ops
}

// checkGarbled checks that a reply is decoded, or refused without a trace.
func checkGarbled(t *testing.T, reply any, ops []Op) {
	t.Helper()
	s := canned(t, reply, nil)
	_, err := s.Do(t.Context(), s.Keys("name"), 0, ops)
	if text, _ := reply.(string); err == nil || strings.Contains(text, " -1 ") && errors.Is(err, ErrRefused) {
		return
	}
	wantKind(t, err, ErrUnknown, nil)
	for i := range ops {
		if ops[i].Result != (Result{}) {
			t.Fatalf("%v, but operation %d has a result: %+v", err, i, ops[i].Result)
		}
	}
}

func TestGarbledReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{
		nil, "text", int64(1), 1.5, true,
		[]any{},
		[]any{int64(1), int64(0)},
		"", " ",
		"1", "1 5", "1 5 0", "1 5 2", "1 5 0 0 0 0 0 0 0 0",
		"1 5 0 0 0 0 0 0 0 0 0", // and no results
		"1 5 0 0 0 0 0 0 0 0 0 1",
		"1 5 0 0 0 0 0 0 0 0 0 99",
		"1 5 0 0 0 0 0 0 0 0 0 6 0 0 0 0 6 x",
		"1 5 -1", "1 5 -2 0 0 0 0 0 0 0 0", "1 5 7 0 0 0 0 0 0 0 0", "nan 5 0 0 0 0 0 0 0 0 0",
		"1e3 5 0 0 0 0 0 0 0 0 0", "99999999999999999999 5 0 0 0 0 0 0 0 0 0",
		strings.Repeat("2 ", 100), strings.Repeat("2 ", 100) + "2",
	} {
		s := canned(t, reply, nil)
		ops := sampleOps()
		if _, err := s.Do(t.Context(), s.Keys("name"), 0, ops); err == nil {
			t.Errorf("%v was taken for a reply", reply)
		}
		checkGarbled(t, reply, sampleOps())
	}
}

func TestGarbledStates(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{
		nil, "text", int64(1), 1.5, true,
		[]any{},
		[]any{nil},
		[]any{int64(1)},
		[]any{int64(1), int64(0)},
		[]any{"1", "0", "0", "0"},
		[]any{int64(1), int64(0), int64(0), int64(0)},
		[]any{[]any{}, map[any]any{}, nil, 1.5},
	} {
		s := canned(t, reply, nil)
		if _, err := s.Inspect(t.Context(), s.Keys("name"), true); err == nil {
			t.Errorf("%v was taken for a state", reply)
		}
	}
}

// FuzzDecode feeds replies made of arbitrary text.
func FuzzDecode(f *testing.F) {
	f.Add("A", "1 5 0 1 1 0 0 1 5 9 3 1 5 0 9 3")
	f.Add("AHRLE", "1 5 0 1 1 0 0 1 5 9 3 6 0 0 0 0 2 -1 7 9 9 10")
	f.Add("LAAAL", "1 5 0 1 1 0 0 1 5 9 3 9 11 3 5 9 3 2 0 1 9")
	f.Add("DPZ", "1 5 1 0 0 0 0 0 0 0 0")
	f.Add("A", "1 5 -1 0 0 0 0 0 0 0 0")
	f.Add("A", "1 5 2")
	f.Fuzz(func(t *testing.T, verbs, reply string) {
		var ops []Op
		for _, v := range verbs {
			ops = append(ops, Op{Verb: Verb(v), ID: "s0.1", Terms: terms(3)})
		}
		checkGarbled(t, reply, ops)
	})
}

// FuzzInspect feeds foreign content to what reads it for operators.
func FuzzInspect(f *testing.F) {
	f.Add("1 3 -1 0 0", "1 1 0 0 1 5 5 0", "s0.1", "1790000000000", "h 1 0 5 0 0 o/1/h label")
	f.Add("2 3", "", "qs0.1", "-5", "w 1 5 0 o/1/h ")
	f.Add("1 3 -1 0 0", "1 1 0 0 1 5 5 0", "", "inf", "x 1")
	f.Fuzz(func(t *testing.T, settings, counts, member, score, record string) {
		s := canned(t, []any{int64(1), settings, counts, member, score, record}, nil)
		if _, err := s.Inspect(t.Context(), s.Keys("name"), true); err != nil {
			wantKind(t, err, ErrRejected, nil)
		}
	})
}
