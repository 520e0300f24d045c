package protocol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// How a reply becomes results, or is refused.

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
		for _, arg := range cmd.Args() { // as on the way to a connection
			if b, ok := arg.(*bound); ok {
				b.written = true
			}
		}
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

// numbers are those of a semaphore, and inNumbers what they are read as.
const numbers = "3 9 -1 0 2 6 5 4 3 7 88 99 111 1 0 -"

var inNumbers = State{
	Declared: 9, Pin: -1, Changes: 2, Used: 6, Holders: 5, Waiting: 4, Others: 3, Slots: 7, Last: 88, Next: 99, Till: 111, Lapses: true,
}

// asked are an acquire for each verb A, a renewal for each R, and so on.
func asked(verbs string) (ops []Op) {
	for i, v := range verbs {
		ops = append(ops, Op{Verb: Verb(v), ID: fmt.Sprint("s0.", i), To: fmt.Sprint("s1.", i), Terms: terms(3), TTL: time.Minute})
	}
	return ops
}

// TestRepliesThatFit: what they are read as.
func TestRepliesThatFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verbs, results string
		want           []Result
	}{
		{"A", " 1 4 88 700", []Result{{Code: Granted, Slot: 4, Token: 88, Remaining: 700 * time.Millisecond}}},
		{"A", " 2 3 250", []Result{{Code: Queued, Ahead: 3, Front: 250 * time.Millisecond}}},
		{"A", " 3 0", []Result{{Code: Busy}}},
		{"A", " 4 250", []Result{{Code: Full, Rest: 250 * time.Millisecond}}},
		{"A", " 13 t:9/60000+4", []Result{{Code: Costly, Rate: Rate{"t", 9, time.Minute, 4}}}},
		{"A", " 5 9", []Result{{Code: Heavy, Limit: 9}}},
		{"A", " 6 0", []Result{{Code: Gone}}},
		{"H", " 2 -1 0", []Result{{Code: Queued, Ahead: -1}}},
		{"H", " 8 250", []Result{{Code: Evicting, Remaining: 250 * time.Millisecond}}},
		{"R", " 7 3 88 250", []Result{{Code: Renewed, Slot: 3, Token: 88, Remaining: 250 * time.Millisecond}}},
		{"R", " 6 3", []Result{{Code: Gone, Reason: Evicted}}},
		{"R", " 7 3 88 -250", []Result{{Code: Renewed, Slot: 3, Token: 88, Remaining: -250 * time.Millisecond}}},
		{"L", " 9", []Result{{Code: Released}}},
		{"L", " 10", []Result{{Code: Cancelled}}},
		{"L", " 12 7 1/h;g 0", []Result{{Code: Gone, Reason: WasMoved, Owner: "1/h;g 0"}}},
		{"E", " 8 0", []Result{{Code: Evicting}}},
		{"M", " 11 4 88 700 2 9000 9 two words", []Result{{
			Code: Moved, Slot: 4, Token: 88, Remaining: 700 * time.Millisecond, Weight: 2, TTL: 9 * time.Second, Label: "two words",
		}}},
		{"M", " 11 4 88 700 2 9000 0 ", []Result{{
			Code: Moved, Slot: 4, Token: 88, Remaining: 700 * time.Millisecond, Weight: 2, TTL: 9 * time.Second,
		}}},
		{"MML", " 11 4 88 700 2 9000 0  12 1 o 9", []Result{
			{Code: Moved, Slot: 4, Token: 88, Remaining: 700 * time.Millisecond, Weight: 2, TTL: 9 * time.Second},
			{Code: Gone, Reason: WasMoved, Owner: "o"},
			{Code: Released},
		}},
		{"DLPZ", " 9", []Result{{}, {Code: Released}, {}, {}}},
		{"R", " 7 3 88 9223372036854775807", []Result{{Code: Renewed, Slot: 3, Token: 88, Remaining: milliseconds(longest)}}},
	} {
		for status, more := range []bool{false, true} {
			s, ops := canned(t, fmt.Sprint("3005001 ", status, " 8 - 0 ", numbers, test.results), nil), asked(test.verbs)
			head, err := s.Do(t.Context(), s.Key("name"), 0, ops)
			want := Reply{Now: 3005, us: 3005001, More: more, Was: 8, State: inNumbers}
			if err != nil || head != want || !reflect.DeepEqual(resultsOf(ops), test.want) {
				t.Errorf("%s, %q: %v, %+v %+v, want %+v %+v", test.verbs, test.results, err, head, resultsOf(ops), want, test.want)
			}
		}
	}
}

// TestReplyToACallThatCameTooLate: it did not happen, and tells the server's time.
func TestReplyToACallThatCameTooLate(t *testing.T) {
	t.Parallel()
	s, ops := canned(t, "3005001 -1 0 - 0 3 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 -", nil), asked("A")
	head, err := s.Do(t.Context(), s.Key("name"), 3004, ops)
	wantKind(t, err, ErrRefused, errLate)
	if head.Now != 3005 {
		t.Errorf("at %d", head.Now)
	}
}

// TestRepliesThatDoNotFit: one thing is wrong with each.
func TestRepliesThatDoNotFit(t *testing.T) {
	t.Parallel()
	const head = "3005001 0 8 - 0 " + numbers
	for name, test := range map[string]struct{ verbs, reply string }{
		"nothing":                       {"", ""},
		"a space":                       {"", " "},
		"no numbers":                    {"", "3005001 0 8"},
		"a status that is none":         {"L", "3005001 3 8 - 0 " + numbers + " 9"},
		"a status below those there be": {"L", "3005001 -2 8 - 0 " + numbers + " 9"},
		"no time":                       {"L", "x 0 8 - 0 " + numbers + " 9"},
		"a time with an exponent":       {"L", "1e3 0 8 - 0 " + numbers + " 9"},
		"a time that is no int64":       {"L", "99999999999999999999 0 8 - 0 " + numbers + " 9"},
		"another layout":                {"L", "3005001 0 8 - 0 2" + numbers[1:] + " 9"},
		"a number too few":              {"", head[:len(head)-2]},
		"a number that is none":         {"", strings.Replace(head, " 88 ", " 8x ", 1)},
		"a result too few":              {"LL", head + " 9"},
		"a result too many":             {"L", head + " 9 9"},
		"a result of nothing":           {"", head + " 9"},
		"a result of an operator's":     {"Z", head + " 0"},
		"a code that is none":           {"L", head + " 13"},
		"a code for others":             {"L", head + " 0"},
		"a grant that ends early":       {"A", head + " 1 4 88"},
		"a slot that is none":           {"A", head + " 1 x 88 700"},
		"a label that ends early":       {"M", head + " 11 4 88 700 2 9000 9 two word"},
		"a label that does not end":     {"ML", head + " 11 4 88 700 2 9000 3 label 9"},
		"a label of less than nothing":  {"M", head + " 11 4 88 700 2 9000 -1 label"},
		"a label beyond all":            {"M", head + " 11 4 88 700 2 9000 9223372036854775807 label"},
		"an owner that ends early":      {"L", head + " 12 5 own"},
		"late, and more":                {"A", "3005001 -1 0 - 0 " + numbers + " 1"},
		"late, with a bad number":       {"A", "3005001 -1 0 - 0 3 9 x 0 0 0 0 0 0 0 0 0 0 0 0 -"},
		"many twos":                     {"A", strings.Repeat("2 ", 100) + "2"},
	} {
		t.Run(name, func(t *testing.T) { checkGarbled(t, test.reply, asked(test.verbs), true) })
	}
	for _, reply := range []any{nil, int64(1), 1.5, true, []any{}, []any{int64(1), int64(0)}} {
		checkGarbled(t, reply, asked("AHRLEMDPZ"), true)
	}
}

// checkGarbled checks that a reply is decoded, or refused without a trace; must says
// that it is to be refused.
func checkGarbled(t *testing.T, reply any, ops []Op, must bool) {
	t.Helper()
	s := canned(t, reply, nil)
	_, err := s.Do(t.Context(), s.Key("name"), 0, ops)
	if errors.Is(err, errLate) && !must || err == nil && !must {
		return
	}
	wantKind(t, err, ErrUnknown, nil)
	for i := range ops {
		if ops[i].Result != (Result{}) {
			t.Fatalf("%v, but operation %d has a result: %+v", err, i, ops[i].Result)
		}
	}
}

// FuzzDecode feeds replies made of arbitrary text.
func FuzzDecode(f *testing.F) {
	const head = "3005001 0 8 - 0 " + numbers
	f.Add("A", head+" 1 4 88 700")
	f.Add("AHRLE", head+" 6 0 2 -1 7 9 9 10")
	f.Add("LAAAL", "3005001 1 8 - 0 "+numbers+" 9 9 2 0 3 4")
	f.Add("MML", head+" 9 11 4 88 700 2 9000 9 two words 12 1 o")
	f.Add("M", head+" 11 4 88 700 2 9000 0 ")
	f.Add("DPZ", head)
	f.Add("A", "3005001 -1 0 - 0 3 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 -")
	f.Add("A", "1 5 2")
	f.Fuzz(func(t *testing.T, verbs, reply string) {
		if len(verbs) > MaxIDs/2 {
			return
		}
		checkGarbled(t, reply, asked(verbs), false)
	})
}
