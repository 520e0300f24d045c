package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/dev/verify/storm"
	"github.com/berth-go/berth/dev/verify/worker"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// The client in the folder python speaks the protocol from its description alone.

// python is the command of that client.
func python(t *testing.T) []string {
	t.Helper()
	// Debian's interpreter sees Debian's modules; one that comes first on PATH may not.
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import redis").Run() == nil {
			return []string{name, "-B", "python/worker.py"}
		}
	}
	t.Fatal("there is no python3 with the module redis: scripts/setup installs python3-redis, or say `pip install redis`")
	return nil
}

// TestStormWithPython: clients in Go and in Python together keep every promise, and those that
// are left when the server forgets.
func TestStormWithPython(t *testing.T) {
	for _, s := range []storm.Scenario{storm.Keep, storm.Clients, storm.Forget} {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			run(t, storm.Order{Scenario: s, Python: python(t)})
		})
	}
}

// pythonBugs are bugs to plant in the client in Python, and the promises of which the storm must
// see one broken.
var pythonBugs = []struct {
	what, old, new string
	caught         []string
}{
	{"trust is counted from after the reply", "trust(reply.sent,", "trust(100 + reply.got,", []string{"S1", "S3", "S7"}},
	{"any message is believed", "if not 0 <= slot", "if False and not 0 <= slot", []string{"S1", "S2", "S3", "S7"}},
}

// TestPlantedInPython: the storms notice what is wrong in the client in Python.
func TestPlantedInPython(t *testing.T) {
	if !*planted {
		t.Skip("storms for each planted bug: run it with -mutants, or make verify")
	}
	for _, bug := range pythonBugs {
		t.Run(bug.what, func(t *testing.T) {
			t.Parallel()
			command := plant(t, bug.old, bug.new)
			for n := range mostStorms {
				o := storm.Order{Scenario: storm.Clients, Seed: *seed + uint64(n), Lasts: *lasts, Workers: *procs, Python: command, Out: t.TempDir()}
				seen := storm.Run(t, o).Promises()
				if slices.ContainsFunc(bug.caught, func(p string) bool { return slices.Contains(seen, p) }) {
					t.Logf("caught in storm %d: %v", n+1, seen)
					return
				}
			}
			t.Errorf("survived %d storms of %v", mostStorms, *lasts)
		})
	}
}

// plant returns the command of the client in Python with every old text replaced.
func plant(t *testing.T, old, planted string) []string {
	dir := t.TempDir()
	for _, file := range []string{"dev/verify/python/berth.py", "dev/verify/python/worker.py", "internal/protocol/transition.lua"} {
		text, err := os.ReadFile(filepath.Join("../..", file))
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "berth.py") {
			if !strings.Contains(string(text), old) {
				t.Fatalf("%s has changed: it has no %q to replace", file, old)
			}
			text = []byte(strings.ReplaceAll(string(text), old, planted))
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := python(t)
	return append(command[:len(command)-1], filepath.Join(dir, "dev/verify/python/worker.py"))
}

// beside runs body with a server that keeps its data. Its leases do not run out on a busy machine.
func beside(t *testing.T, body func(e *testenv.Env)) {
	testenv.OwnServer(t, []string{"appendonly yes", "appendfsync always"}, func(e *testenv.Env) {
		e.TTL = time.Minute
		body(e)
	})
}

// porter is a process of the client in Python that does what it is asked.
type porter struct {
	*testenv.Env
	*child.Process
}

func startPorter(t *testing.T, e *testenv.Env) *porter {
	t.Helper()
	spec, err := json.Marshal(worker.Spec{Socket: e.Server.Socket(), Prefix: e.Prefix})
	e.Must(err)
	command := append(python(t), "asks")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), worker.Env+"="+string(spec))
	p, err := child.Start(cmd)
	e.Must(err)
	e.Cleanup(p.Kill)
	return &porter{e, p}
}

// told is an answer of a porter.
type told struct {
	ID, Handle, Why string
	Slot            int
	Token           int64
	Valid           bool
}

// ask has p do something, and returns its answer.
func (p *porter) ask(what string, args ...any) (answer told) {
	p.Helper()
	p.Must(p.Ask(p.Ctx, line(what, args...), &answer))
	return answer
}

func line(what string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"as": "it", "do": `+what+`}`, args...))
}

const (
	take    = `"acquire", "name": "` + testenv.Name + `", "limit": 1, "ttl": 60000`
	brief   = `"acquire", "name": "` + testenv.Name + `", "limit": 1, "ttl": 2000`
	release = `"release"`
	look    = `"ended", "most": 0`
	end     = `"ended", "most": 30`
)

// TestPythonAdoptsAndGivesAway: a lease goes from Go to Python and back, with its slot.
func TestPythonAdoptsAndGivesAway(t *testing.T) {
	beside(t, func(e *testenv.Env) {
		p, peer := startPorter(t, e), e.Peer()
		first := e.Hold(peer.Sem(1, berth.TTL(e.TTL)))
		handle, err := first.Detach(e.Ctx)
		e.Must(err)
		theirs := p.ask(`"adopt", "handle": %q`, string(handle))
		last, err := peer.Adopt(e.Ctx, berth.Handle(p.ask(`"detach"`).Handle))
		e.Must(err)
		if theirs.Slot != first.Slot() || last.Slot() != first.Slot() || theirs.Token <= first.Token() || last.Token() <= theirs.Token {
			t.Errorf("tokens %d, %d, %d", first.Token(), theirs.Token, last.Token())
		}
		e.Release(last)
	})
}

// TestPythonIsEvicted: its holder is told, asked to stop or not, and gives the permit back.
func TestPythonIsEvicted(t *testing.T) {
	beside(t, func(e *testenv.Env) {
		p := startPorter(t, e)
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, p.ask(take).ID))
		if is := p.ask(end); is.Valid || is.Why != "evicted" {
			t.Errorf("asked to stop, it says %+v", is)
		}
		_ = p.Ask(e.Ctx, line(release), new(told)) // it says that the lease was lost
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, p.ask(take).ID))
		if is := p.ask(end); is.Valid || is.Why != "6 3" {
			t.Errorf("evicted, it says %+v", is)
		}
		e.Idle()
	})
}

// TestKilledBesidePython: a holder that was killed is followed by a waiter of the other kind,
// with its slot and a larger token.
func TestKilledBesidePython(t *testing.T) {
	beside(t, func(e *testenv.Env) {
		e.TTL = 2 * time.Second
		p, killed := startPorter(t, e), startPorter(t, e)
		theirs := killed.ask(brief)
		killed.Kill()
		peer := e.Peer()
		ours := e.Hold(peer.Sem(1, berth.TTL(e.TTL)))
		e.Must(p.Tell(line(brief)))
		e.Until("the client in Python waits", func(s *berthadmin.State) bool {
			return len(s.Queue) == 1 && s.Queue[0].Extra == "port=proof"
		})
		peer.Crash()
		var next told
		e.Must(p.Hear(e.Ctx, &next))
		if ours.Token() <= theirs.Token || next.Token <= ours.Token() || ours.Slot()+theirs.Slot+next.Slot != 0 {
			t.Errorf("%+v, then token %d, then %+v", theirs, ours.Token(), next)
		}
		p.ask(release)
	})
}

// TestPythonOutlivesARestart: its lease is there, and renewed, when the server is back.
func TestPythonOutlivesARestart(t *testing.T) {
	beside(t, func(e *testenv.Env) {
		p := startPorter(t, e)
		p.ask(take)
		e.Server.Kill()
		e.Server.Restart(t)
		e.WantErr(e.Try(e.Peer().Sem(1, berth.TTL(e.TTL))), berth.ErrBusy)
		if is := p.ask(look); !is.Valid {
			t.Errorf("it lost its lease: %s", is.Why)
		}
		p.ask(release)
		e.Idle()
	})
}

// TestPythonHeedsARate: what it is granted counts for the rate that a client in Go has declared,
// and what it asks for beyond that is refused.
func TestPythonHeedsARate(t *testing.T) {
	beside(t, func(e *testenv.Env) {
		p := startPorter(t, e)
		e.Release(e.Hold(e.Peer().Sem(1, berth.TTL(e.TTL), berth.Rate(2, time.Hour))))
		p.ask(take)
		p.ask(release)
		if s := e.Show(); len(s.Rates) != 1 || s.Rates[0].Spent != 2 || s.Rates[0].N != 2 {
			t.Errorf("%+v", s.Summary)
		}
		for more, want := range map[string]string{`, "wait": false`: "Busy: 3 ", `, "costs": ":3"`: "Busy: 13 :2/3600000"} {
			if err := p.Ask(e.Ctx, line(take+more), new(told)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("asked for%s it says %v", more, err)
			}
		}
	})
}
