package protocol

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// How operations become arguments, and what is not sent.

const someone = "1/host;go0.1"

// TestOpsSurviveTheWire reads the arguments as the script does.
func TestOpsSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOf(genOp).Draw(t, "ops")
		args := textsOf(appendOps(nil, ops, someone))
		var want []Op
		inOrder(ops, func(op *Op) { want = append(want, *op) })
		if got := parseArgs(t, args); opsString(got) != opsString(want) {
			t.Fatalf("arguments %q\nread as %s\nwant    %s", args, opsString(got), opsString(want))
		}
	})
}

// TestAcquiresComeLast: the order of all others is kept, and each result comes back
// to its operation.
func TestAcquiresComeLast(t *testing.T) {
	t.Parallel()
	ops := []Op{
		{Verb: Acquire, ID: "1", Terms: terms(3)},
		{Verb: Release, ID: "2"},
		{Verb: Acquire, ID: "3", Terms: terms(3)},
		{Verb: Resize, N: 4},
		{Verb: Renew, ID: "4", TTL: time.Second},
	}
	var order string
	inOrder(ops, func(op *Op) { order += string(rune(op.Verb)) })
	if order != "LDRAA" {
		t.Errorf("sent as %s", order)
	}
	s := canned(t, "5000 0 0 - 0 "+numbers+" 9 6 0 3 0 1 2 77 900", nil)
	if _, err := s.Do(t.Context(), s.Key("name"), 0, ops); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, resultsOf(ops), Busy, Released, Granted, Done, Gone)
}

// TestPreparedTermsAreSentAsOthers: to prepare terms saves work and changes nothing.
func TestPreparedTermsAreSentAsOthers(t *testing.T) {
	t.Parallel()
	store := NewStore(nil, "berth", "s0", 1, "host")
	op := Op{Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.Label = "two words" })}
	plain := textsOf(appendOps(nil, []Op{op}, store.owner))
	op.Terms = store.Prepare(op.Terms)
	prepared := textsOf(appendOps(nil, []Op{op}, store.owner))
	if fmt.Sprint(plain) != fmt.Sprint(prepared) || !strings.HasSuffix(plain[0], " "+someone+" two words") {
		t.Errorf("%q and, prepared, %q", plain, prepared)
	}
}

// TestOwnerOfAnotherProgramsRequest has that program's process in front, and what it says of it
// behind all else but the tenant.
func TestOwnerOfAnotherProgramsRequest(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"", ":"} {
		op := Op{Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) {
			t.For, t.Tenant, t.Share, t.Label = Program{PID: 7141, More: ";agent=812;uid=1000"}, "acme", 7, "import"
		})}
		head := textsOf(appendOps(nil, []Op{op}, mark+"812/web-3;go0.1"))[0]
		if want := " " + mark + "7141/web-3;go0.1;agent=812;uid=1000;share=7;tenant=acme import"; !strings.HasSuffix(head, want) {
			t.Errorf("%q, want %q at the end", head, want)
		}
	}
}

func textsOf(args []any) (texts []string) {
	for _, a := range args {
		texts = append(texts, fmt.Sprint(a))
	}
	return texts
}

// parseArgs is the reverse of appendOps: groups, and then all their ids.
func parseArgs(t failer, args []string) (ops []Op) {
	t.Helper()
	switch len(args) {
	case 0:
		return nil
	case 2:
		args = []string{"1", args[0], "1", args[1]}
	}
	groups := number(args[0])
	heads, ids := args[1:1+2*groups], args[1+2*groups:]
	for ; len(heads) > 0; heads = heads[2:] {
		op, count := parseHead(heads[0]), number(heads[1])
		switch {
		case !op.Verb.named():
			ops = append(ops, op)
		case op.Verb == Move:
			for i := 0; i < count; i += 2 {
				op.ID, op.To = ids[i], ids[i+1]
				ops = append(ops, op)
			}
		default:
			ops = append(ops, each(op, ids[:count]...)...)
		}
		ids = ids[count:]
	}
	if len(ids) > 0 {
		t.Fatalf("%q are left", ids)
	}
	return ops
}

// parseHead returns the operation that a head stands for; the owner must be someone.
func parseHead(head string) Op {
	var rates Rates
	var costs Costs
	if head[0] == 'B' {
		before, rest, _ := strings.Cut(head, " A")
		p := strings.Fields(before[1:])
		rates, costs, head = Rates(strings.Trim(p[0], "-")), Costs(strings.Trim(p[1], "-")), "A"+rest
	}
	op := Op{Verb: Verb(head[0])}
	if op.Verb == Cool {
		lasts, who, _ := strings.Cut(head[1:], " ")
		op.TTL, op.Who = inMillis(lasts), who
		return op
	}
	p := strings.SplitN(head[1:], " ", 10)
	switch op.Verb {
	case Acquire:
		owner, tenant, _ := strings.Cut(p[8], ";tenant=")
		owner, part, _ := strings.Cut(owner, ";share=")
		share, _ := strconv.Atoi(part)
		mustBe(owner, someone)
		op.Terms = &Terms{
			Wait: p[0] == "1", Weight: number(p[1]), MaxHold: inMillis(p[2]), Limit: number(p[3]), Heartbeat: inMillis(p[4]),
			HeadStart: inMillis(p[5]), QueueLimit: number(p[6]), TTL: inMillis(p[7]), Label: p[9], Rates: rates, Costs: costs,
			Tenant: tenant, Share: share,
		}
	case Heartbeat:
		op.TTL, op.Flag = inMillis(p[0]), p[1] == "1"
	case Renew:
		op.TTL = inMillis(p[0])
	case Move:
		mustBe(p[1], someone)
		op.TTL = inMillis(p[0])
	case Release, Evict, Pause:
		op.Flag = p[0] == "1"
		if len(p) > 1 {
			op.Costs = Costs(p[1])
		}
	case Settle:
		op.Costs = Costs(p[0])
	case SetRates:
		op.Flag, op.Rates = p[0] == "1", Rates(strings.Trim(p[2], "-"))
		op.Unit, op.Only = strings.CutSuffix(p[1], ":")
		op.Unit = strings.Trim(op.Unit, "*")
	case UnpinRates:
	default:
		op.N = number(p[0])
	}
	return op
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

func inMillis(s string) time.Duration { return milliseconds(int64(number(s))) }

// TestNeighboursShareArguments: that is what makes big calls cheap.
func TestNeighboursShareArguments(t *testing.T) {
	t.Parallel()
	a, b, other := terms(3), terms(3), terms(4)
	for _, test := range []struct {
		ops  []Op
		args int // the number of groups, two for each, and the ids
	}{
		{[]Op{{Verb: Acquire, ID: "1", Terms: a}, {Verb: Acquire, ID: "2", Terms: b}}, 1 + 2 + 2},
		{[]Op{{Verb: Acquire, ID: "1", Terms: a}, {Verb: Acquire, ID: "2", Terms: other}}, 1 + 2*2 + 2},
		{[]Op{{Verb: Acquire, ID: "1", Terms: a}, {Verb: Release, ID: "2"}, {Verb: Acquire, ID: "3", Terms: a}}, 1 + 2*2 + 3},
		{[]Op{{Verb: Release, ID: "1"}, {Verb: Release, ID: "2", Flag: true}}, 1 + 2*2 + 2},
		{[]Op{{Verb: Renew, ID: "1", TTL: 1e9}, {Verb: Renew, ID: "2", TTL: 1e9}, {Verb: Renew, ID: "3", TTL: 2e9}}, 1 + 2*2 + 3},
		{[]Op{{Verb: Heartbeat, ID: "1", TTL: 1e9}, {Verb: Heartbeat, ID: "2", TTL: 1e9, Flag: true}}, 1 + 2*2 + 2},
		{[]Op{{Verb: Move, ID: "1", To: "2"}, {Verb: Move, ID: "3", To: "4"}}, 1 + 2 + 4},
		{[]Op{{Verb: Move, ID: "1", To: "2"}}, 1 + 2 + 2},
		{[]Op{{Verb: Pin, N: 1}, {Verb: Pin, N: 1}}, 1 + 2*2},
		{[]Op{{Verb: Pin, N: 1}}, 1 + 2},
		{[]Op{{Verb: Release, ID: "1"}}, 2}, // one operation on one id needs no numbers
		{nil, 0},
	} {
		if args := appendOps(nil, test.ops, someone); len(args) != test.args {
			t.Errorf("%s became %d arguments, want %d: %q", opsString(test.ops), len(args), test.args, args)
		}
	}
}

// TestCallsThatAreNotSent: what the script relies on not to happen is refused before
// anything is sent.
func TestCallsThatAreNotSent(t *testing.T) {
	t.Parallel()
	releases := func(n int) []Op { return each(Op{Verb: Release}, ids(n)...) }
	moves := func(n int) (ops []Op) {
		for i := range n {
			ops = append(ops, Op{Verb: Move, ID: fmt.Sprint("a.", i), To: fmt.Sprint("b.", i)})
		}
		return ops
	}
	sent := errors.New("it was sent")
	for name, test := range map[string]struct {
		ops  []Op
		want error
	}{
		"as many ids as may be":         {releases(MaxIDs), sent},
		"one id too many":               {releases(MaxIDs + 1), ErrRequest},
		"as many moves as may be":       {moves(MaxIDs / 2), sent},
		"one move too many":             {moves(MaxIDs/2 + 1), ErrRequest},
		"an id twice":                   {each(Op{Verb: Release}, "1", "2", "1"), ErrRequest},
		"an id twice, by two verbs":     {[]Op{{Verb: Release, ID: "1"}, {Verb: Acquire, ID: "1", Terms: terms(1)}}, ErrRequest},
		"moved, and released":           {[]Op{{Verb: Move, ID: "1", To: "2"}, {Verb: Release, ID: "1"}}, ErrRequest},
		"moved to what is renewed":      {[]Op{{Verb: Renew, ID: "2", TTL: 1e9}, {Verb: Move, ID: "1", To: "2"}}, ErrRequest},
		"two moves to one id":           {[]Op{{Verb: Move, ID: "1", To: "3"}, {Verb: Move, ID: "2", To: "3"}}, ErrRequest},
		"a move to itself":              {[]Op{{Verb: Move, ID: "1", To: "1"}}, ErrRequest},
		"a move to itself, and another": {[]Op{{Verb: Move, ID: "1", To: "1"}, {Verb: Release, ID: "2"}}, ErrRequest},
		"a move to nowhere":             {[]Op{{Verb: Move, ID: "1"}}, ErrRequest},
		"of no id":                      {[]Op{{Verb: Release}}, ErrRequest},
		"operator's, twice":             {[]Op{{Verb: Pin, N: 1}, {Verb: Pin, N: 2}}, sent},
		"nothing":                       {nil, sent},
	} {
		t.Run(name, func(t *testing.T) {
			s := canned(t, nil, sent)
			_, err := s.Do(t.Context(), s.Key("name"), 0, test.ops)
			if !errors.Is(err, test.want) || test.want == ErrRequest && (!errors.Is(err, ErrRejected) || errors.Is(err, sent)) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}
