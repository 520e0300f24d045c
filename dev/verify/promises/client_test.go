package promises

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// TestTurnsWithinAClient: who came later is not granted earlier, unless the client may have
// asked for both at once, or the server may have forgotten a place.
func TestTurnsWithinAClient(t *testing.T) {
	const late = history.Time(history.Late / time.Millisecond)
	for what, c := range map[string]struct {
		second history.Time // asked
		fault  history.Event
		ttl    time.Duration
		ok     bool
	}{
		"turned":               {10 + late, history.Event{}, 891 * time.Millisecond, false},
		"turned in trouble":    {10 + late, history.Event{Target: 1, Text: "half-open"}, 892 * time.Millisecond, false},
		"its place had ended":  {10 + late, history.Event{Target: 1, Text: "slow link"}, 891 * time.Millisecond, true},
		"almost at once":       {9 + late, history.Event{}, time.Second, true},
		"its client stood":     {10 + late, history.Event{Target: 1, Text: history.StoodStill}, time.Second, true},
		"another client stood": {10 + late, history.Event{Target: 2, Text: history.StoodStill}, time.Second, false},
		"all was forgotten":    {10 + late, history.Event{Breaks: true}, time.Second, true},
	} {
		d := &diary{}
		d.set(func(e *history.Event) { e.TTL = c.ttl }, func() {
			d.release(d.lease("line.1", 10, 0, 900, 901, 2000, 0), "line.1", 950, 951)
			d.release(d.lease("line.1", c.second, 0, 800, 801, 2000, 0), "line.1", 850, 851)
		})
		if c.fault != (history.Event{}) {
			d.fault(100, 110, c.fault)
		}
		v := d.verdict(stormEnd)
		if slices.Contains(v.Promises(), "S4") == c.ok {
			t.Errorf("%s: %v, %d judged", what, v.Violations, v.Turns)
		}
	}
	d := &diary{} // in turn
	d.release(d.lease("line.1", 10, 0, 500, 501, 2000, 0), "line.1", 550, 551)
	d.release(d.lease("line.1", 400, 0, 600, 601, 2000, 0), "line.1", 650, 651)
	if v := d.verdict(stormEnd); len(v.Violations) > 0 || v.Turns != 1 {
		t.Errorf("in turn: %v, %d judged", v.Violations, v.Turns)
	}
}

// ping is a plain command of a process.
func (d *diary) ping(at history.Time, proc int, took time.Duration) {
	d.events = append(d.events, history.Event{At: at * ms, Until: (at * ms).Add(took), Proc: proc, Kind: history.Ping, Answers: 1})
}

// connected adds a request of process 1, which is not its first then.
func (d *diary) connected() {
	d.release(d.lease("slow", 1, 0, 2, 3, 20_000, 0), "slow", 4, 5)
}

// TestFirstAnswersOfAClientAreMore: its first request waits for its connection, too.
func TestFirstAnswersOfAClientAreMore(t *testing.T) {
	const more = history.Time(firstAnswers * lateness / time.Millisecond)
	const bound = history.Time((5*lateness+slackOfTests)/time.Millisecond) + more
	for _, c := range []struct {
		first    bool
		returned history.Time
		ok       bool
	}{{true, 10 + bound, true}, {true, 11 + bound, false}, {false, 10 + bound, false}, {false, 10 + bound - more, true}} {
		d := &diary{}
		if !c.first {
			d.connected()
		}
		d.release(d.lease("slow", 10, 0, 12, c.returned, 20_000, 0), "slow", c.returned+1, c.returned+2)
		if v := d.verdict(20_000); slices.Contains(v.Promises(), "L6") == c.ok {
			t.Errorf("%+v: %v", c, v.Violations)
		}
	}
}

// TestSlowMachineIsNoFault where plain commands of the same process, at the same time, are as slow.
func TestSlowMachineIsNoFault(t *testing.T) {
	const slower = 3 * lateness
	const bound = history.Time((5*slower + slackOfTests) / time.Millisecond)
	for what, c := range map[string]struct {
		asked, took history.Time // of the request
		at          history.Time // of the command
		proc        int
		ok          bool
	}{
		"as slow":              {10, bound, 100, 1, true},
		"slower":               {10, bound + 1, 100, 1, false},
		"in another process":   {10, bound, 100, 2, false},
		"before":               {1010, bound, 100, 1, false},
		"afterwards":           {10, bound, 2000, 1, false},
		"when it was made":     {10, bound, 0, 1, true},
		"slow until the grant": {10, bound, 9 + bound, 1, true},
	} {
		d, returned := &diary{}, c.asked+c.took
		d.ping(c.at, c.proc, slower)
		d.connected()
		d.release(d.lease("slow", c.asked, 0, c.asked+2, returned, 20_000, 0), "slow", returned+1, returned+2)
		if v := d.verdict(20_000); slices.Contains(v.Promises(), "L6") == c.ok || v.Served != 2 {
			t.Errorf("%s: %v, %d judged", what, v.Violations, v.Served)
		}
	}
}

// TestConnectingIsNoSlowMachine: a plain command that has to connect waits for more than one answer.
func TestConnectingIsNoSlowMachine(t *testing.T) {
	const bound = history.Time((5*2*lateness + slackOfTests) / time.Millisecond)
	for more, ok := range map[history.Time]bool{0: true, 1: false} {
		d, returned := &diary{}, 10+bound+more
		d.connected()
		d.events = append(d.events, history.Event{At: 12 * ms, Until: (12 * ms).Add(3 * 2 * lateness), Proc: 1, Kind: history.Ping, Answers: 3})
		d.release(d.lease("slow", 10, 0, 12, returned, 20_000, 0), "slow", returned+1, returned+2)
		if v := d.verdict(20_000); slices.Contains(v.Promises(), "L6") == ok {
			t.Errorf("%d ms after the bound: %v", more, v.Violations)
		}
	}
}

// TestFaultIsNoSlowMachine: of a plain command that a fault held up, only that time counts in
// which a request would be judged.
func TestFaultIsNoSlowMachine(t *testing.T) {
	const held = 3*lateness + afterFault
	const took = held + 2*lateness
	bound := func(of time.Duration) history.Time { return history.Time((5*of + slackOfTests) / time.Millisecond) }
	over := 30 + history.Time(held/time.Millisecond)
	for what, c := range map[string]struct {
		struck   int // the process
		returned history.Time
		ok       bool
	}{
		"in time":            {1, over + bound(took-held), true},
		"too late":           {1, over + bound(took-held) + 1, false},
		"a fault of another": {2, 10 + bound(took), true},
		"too late in spite":  {2, 10 + bound(took) + 1, false},
	} {
		d := &diary{}
		d.connected()
		d.ping(20, 1, took)
		d.fault(30, over-history.Time(afterFault/time.Millisecond), history.Event{Target: c.struck, Text: "x"})
		d.fault(40, 50, history.Event{Target: c.struck, Text: "at the same time"})
		d.release(d.lease("slow", 10, 0, 12, c.returned, 40_000, 0), "slow", c.returned+1, c.returned+2)
		if v := d.verdict(50_000); slices.Contains(v.Promises(), "L6") == c.ok {
			t.Errorf("%s: %v", what, v.Violations)
		}
	}
}

// TestSlowMachineWithoutAnAnswer: a plain command that is under way when its process is killed is
// as slow as the request that is not served meanwhile.
func TestSlowMachineWithoutAnAnswer(t *testing.T) {
	for answered, ok := range map[history.Time]bool{0: true, 100: false} {
		d := &diary{}
		d.connected()
		d.events = append(d.events, history.Event{At: 12 * ms, Proc: 1, Kind: history.Ping, Answers: 3})
		if answered > 0 {
			d.ping(12, 1, time.Duration(answered*ms))
		}
		d.unanswered("slow", 10, 30_000)
		d.fault(15_000, 15_001, history.Event{Target: 1, Text: Killed})
		if v := d.verdict(20_000); slices.Contains(v.Promises(), "L6") == ok {
			t.Errorf("answered after %d ms: %v", answered, v.Violations)
		}
	}
}

// TestSlowIsServed within a few answers, unless something else than its link was in the way.
func TestSlowIsServed(t *testing.T) {
	const bound = history.Time((5*lateness + slackOfTests) / time.Millisecond)
	const calm = history.Time(afterFault / time.Millisecond)
	const healed = history.Time(protocol.Late/time.Millisecond) + calm
	for what, c := range map[string]struct {
		returned history.Time // 0: never
		fault    history.Event
		ok       bool
	}{
		"in time":                {10 + bound, history.Event{}, true},
		"too late":               {11 + bound, history.Event{}, false},
		"never":                  {0, history.Event{}, false},
		"something in the way":   {100 + calm + bound, history.Event{Target: 1, Text: "x"}, true},
		"long after that":        {100 + calm + bound + 1, history.Event{Target: 1, Text: "x"}, false},
		"healing":                {100 + healed + bound, history.Event{Breaks: true}, true},
		"long after that, too":   {100 + healed + bound + 1, history.Event{Breaks: true}, false},
		"all is forgotten":       {100 + calm + bound, history.Event{Breaks: true, Surely: true}, true},
		"no need to heal":        {100 + calm + bound + 1, history.Event{Breaks: true, Surely: true}, false},
		"a clock that steps":     {100 + calm + bound + 1, history.Event{Breaks: true, Steps: true}, false},
		"something in another's": {11 + bound, history.Event{Target: 2, Text: "x"}, false},
		"nobody's excuse":        {11 + bound, history.Event{Target: -1, Text: "x"}, false},
		"killed":                 {0, history.Event{Target: 1, Text: Killed}, true},
	} {
		d := &diary{}
		d.connected()
		d.ping(5, 1, lateness)
		if c.returned > 0 {
			d.release(d.lease("slow", 10, 0, 12, c.returned, 20_000, 0), "slow", c.returned+1, c.returned+2)
		} else {
			d.unanswered("slow", 10, 30_000)
		}
		if c.fault != (history.Event{}) {
			d.fault(90, 100, c.fault)
		}
		v := d.verdict(20_000)
		if slices.Contains(v.Promises(), "L6") == c.ok || v.Served != 2 {
			t.Errorf("%s: %v, %d judged", what, v.Violations, v.Served)
		}
	}
}
