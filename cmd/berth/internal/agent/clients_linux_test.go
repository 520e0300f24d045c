//go:build testall

package agent

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// clientsDir is where the clients are.
const clientsDir = "../../../../clients"

// language is one of clients, with the program of testdata/clients that uses it.
type language struct {
	name, interpreter, client, driver string
	poor                              bool     // it can only run a command
	forks                             bool     // its programs can
	drops                             bool     // a program can lose sight of a hold
	waits                             []string // how a program can wait, and be interrupted
}

var languages = []language{
	{name: "python", interpreter: "python3", client: "python/berth/__init__.py", driver: "driver.py", forks: true, drops: true, waits: []string{""}},
	{
		name: "asyncio", interpreter: "python3", client: "python/berth/__init__.py", driver: "driver_asyncio.py", forks: true, drops: true,
		waits: []string{"", "thread", "lambda", "function", "future"},
	},
	{name: "node", interpreter: "node", client: "node/berth.mjs", driver: "driver.mjs", drops: true, waits: []string{""}},
	{name: "ruby", interpreter: "ruby", client: "ruby/lib/berth.rb", driver: "driver.rb", forks: true, waits: []string{""}},
	{name: "bash", interpreter: "bash", client: "bash/berth.sh", driver: "driver.sh", poor: true},
}

// office is an agent's process, with a program in one language that uses it, and a Go program
// beside it.
type office struct {
	*testenv.Env
	language
	goes  *testenv.Peer
	agent *child.Process
	path  string // of the agent's socket, or its address
	token string // that it needs
}

// shortDir is a directory for a socket: t.TempDir can be too long for one.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newOffice(t *testing.T, l language) *office {
	t.Helper()
	e := testenv.Shared(t)
	return &office{Env: e, language: l, goes: e.Peer(), path: filepath.Join(shortDir(t), "a", "agent.sock")}
}

// open starts the agent if it does not run.
func (o *office) open() {
	o.Helper()
	if o.agent == nil {
		o.agent, o.path = startAgent(o, agentConfig{
			Path: o.path, Token: o.token, Network: o.Options.Network, Addr: o.Options.Addr, Prefix: o.Prefix,
		})
	}
}

// killAgent leaves the socket's file behind, for the next agent to find.
func (o *office) killAgent() {
	o.agent.Kill()
	o.agent = nil
}

// driver is a program in another language.
type driver struct {
	*child.Process
	*office
}

// program starts one that asks for a permit, which it cannot lose because the machine is slow. In
// a mode it does something else than to work.
func (o *office) program(terms string, mode ...string) *driver {
	o.Helper()
	return o.programOf("BERTH_AGENT_SOCKET="+o.path, terms, mode...)
}

// programOf is program with an agent that its environment names.
func (o *office) programOf(agent, terms string, mode ...string) *driver {
	o.Helper()
	clients, err := filepath.Abs(clientsDir)
	o.Must(err)
	if _, err := exec.LookPath(o.interpreter); err != nil {
		o.Fatalf("%v: install %s, as scripts/setup does", err, o.interpreter)
	}
	cmd := exec.Command(o.interpreter, append([]string{
		filepath.Join("testdata/clients", o.driver), testenv.Name, "1",
		strings.Replace(`{"ttl_ms":600000,`+terms[1:], ",}", "}", 1),
	}, mode...)...)
	cmd.Env = append(os.Environ(), "BERTH_AGENT_SOCKET=", agent, "CLIENT="+filepath.Join(clients, o.client),
		"PYTHONPATH="+clients+"/python", "PYTHONDONTWRITEBYTECODE=1", "RUBYLIB="+clients+"/ruby/lib", "BERTH_AGENT_TOKEN="+o.token)
	p, err := child.Start(cmd)
	o.Must(err)
	o.Cleanup(p.Kill)
	return &driver{p, o}
}

// says fails unless this is what the program says next.
func (d *driver) says(want string) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Ctx, 5*time.Minute)
	defer cancel()
	var got string
	if err := d.Hear(ctx, &got); err != nil || got != want {
		d.Fatalf("it says %q, %v, want %q", got, err, want)
	}
}

// told tells the program something, and fails unless it says this.
func (d *driver) told(word, want string) {
	d.Helper()
	d.Must(d.Tell(word))
	d.says(want)
}

// holds starts a program that has the permit.
func (o *office) holds(terms string) *driver {
	o.Helper()
	d := o.program(terms)
	d.says("granted 0")
	return d
}

// next is the Go program, which gets the permit before the TTL could give it back.
func (o *office) next() *berth.Lease {
	o.Helper()
	start := time.Now()
	lease := o.Hold(o.goes.Sem(1), berth.TTL(10*time.Minute))
	o.Within(start, 0, 5*time.Minute, "the next grant")
	return lease
}

// TestClients: each language shares a limit with Go, and loses its permit and nothing else.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, l)
			for _, story := range []func(*office){
				released, queued, known, several, settled, cooled, ofTenant, renewed, killed, killedInQueue, interrupted, dropped, forked, takenAway,
				refused, evicted, frozen, beating, overTCP, stopped, garbage, deserted, desertedInQueue, lonely,
			} {
				o.open()
				story(o)
				if err := o.Inspector.Purge(o.Ctx, testenv.Name); err != nil && !errors.Is(err, berthadmin.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
}

// ofTenant: a client passes on whose request it is.
func ofTenant(o *office) {
	d := o.holds(`{"tenant":"acme","share":3}`)
	if st := o.Show(); len(st.Leases) != 1 || st.Leases[0].Tenant != "acme" {
		o.Errorf("the holders are %+v", st.Leases)
	}
	d.told("release", "released")
	o.Release(o.next())
}

// released: a permit that was given back is free, and not only soon.
func released(o *office) {
	d := o.holds(`{}`)
	if st := o.Show(); st.InUse != 1 || st.Limit != 1 {
		o.Errorf("while it holds: %+v", st.Summary)
	}
	if o.poor { // curl does not wait for the end
		d.told("release", "released")
		o.Release(o.next())
		return
	}
	d.told("valid", "valid true")
	d.told("release", "released")
	lease, err := o.goes.Sem(1).TryAcquire(o.Ctx)
	if errors.Is(err, berth.ErrUnreachable) { // the machine is slow
		return
	}
	o.Must(err)
	o.Release(lease)
}

// queued: who waits is granted when its turn has come, and not before.
func queued(o *office) {
	lease := o.next()
	d := o.program(`{}`)
	o.UntilWaiting(1)
	behind := o.Start(o.goes.Sem(1))
	o.UntilWaiting(2)
	o.Release(lease)
	d.says("granted 0")
	behind.Waits()
	d.told("release", "released")
	o.Release(behind.Granted())
}

// killed: the next one has the permit long before the TTL.
func killed(o *office) {
	d := o.holds(`{}`)
	d.Kill()
	o.Release(o.next())
}

// killedInQueue: nobody waits for it.
func killedInQueue(o *office) {
	lease := o.next()
	d := o.program(`{}`)
	o.UntilWaiting(1)
	d.Kill()
	o.UntilWaiting(0)
	o.Release(lease)
	o.Release(o.next())
}

// refused: the program is told why, and what was found.
func refused(o *office) {
	lease := o.next()
	o.program(`{"wait_ms":0}`).says("refused busy s 1/1 0 409")
	o.program(`{"wait_ms":100}`).says("refused timeout s 1/1 1 409")
	o.program(`{"nosuch":0}`).says("refused invalid")
	o.Release(lease)
}

// evicted: the program is asked to stop.
func evicted(o *office) {
	d := o.holds(`{}`)
	o.Must(o.Inspector.Evict(o.Ctx, testenv.Name, o.Show().Leases[0].ID))
	d.says("stop")
	if !o.poor {
		o.Must(d.Tell("release"))
	}
	d.says("lost")
	o.Release(o.next())
}

// frozen: it hangs, its connection stays open, and its permit goes to the next.
func frozen(o *office) {
	w := world{Env: o.Env}
	w.inTime(func() (late bool) {
		d := o.holds(`{"beat_ms":1000}`)
		defer d.Kill()
		err := d.Cmd.Process.Signal(unix.SIGSTOP)
		if errors.Is(err, os.ErrProcessDone) { // it had no CPU for a second, and has lost its permit
			return true
		}
		o.Must(err)
		o.Release(o.next())
		return false
	})
}

// beating: a program that gives signs of life keeps its permit, and is told when it is too late.
func beating(o *office) {
	if o.poor {
		return // its command has no connection to write to
	}
	w := world{Env: o.Env}
	w.inTime(func() (late bool) {
		d := o.holds(`{"beat_ms":4000}`)
		defer d.Kill()
		holders := o.Show().Leases
		if len(holders) == 0 {
			return true
		}
		last := time.Now().Add(-holders[0].Held) // it may have been slow to say that it is granted
		for range 5 {
			o.Pass(time.Second)
			before := time.Now()
			o.Must(d.Tell("beat"))
			var said string
			o.Must(d.Hear(o.Ctx, &said))
			if w.slow(last, 4*time.Second) {
				return true
			}
			if said != "beat" {
				o.Errorf("it says %q, not having been silent", said)
			}
			last = before
		}
		d.says("stop")
		o.Must(d.Tell("release"))
		d.says("lost")
		return false
	})
}

// deserted: the agent has died, and nobody renews the lease.
func deserted(o *office) {
	d := o.holds(`{}`)
	o.killAgent()
	d.says("stop")
	if !o.poor {
		d.told("valid", "valid false")
		o.Must(d.Tell("release"))
	}
	d.says("lost")
}

// desertedInQueue: the program is told that the agent has died.
func desertedInQueue(o *office) {
	lease := o.next()
	d := o.program(`{}`)
	o.UntilWaiting(1)
	o.killAgent()
	d.says(o.withoutAgent())
	o.Release(lease)
}

// lonely: the agent has died, and its socket is still there.
func lonely(o *office) {
	o.killAgent()
	d := o.program(`{}`)
	var said string
	if err := d.Hear(o.Ctx, &said); err != nil || !strings.HasPrefix(said, "refused ") {
		o.Errorf("without an agent it says %q, %v", said, err)
	}
}

// TestClientsAreOnThePage, each with a link to its file and lines of code that the file has.
func TestClientsAreOnThePage(t *testing.T) {
	t.Parallel()
	const page = "../../../../docs/agent.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages {
		link := regexp.QuoteMeta("](../clients/" + l.client + ")")
		entry := regexp.MustCompile(`(?s)` + link + `.*?\n(- |\n)`).Find(text)
		uses := regexp.MustCompile("`([^`]*hold[^`]+)`").FindAllSubmatch(entry, -1)
		if len(uses) == 0 {
			t.Errorf("%s does not link to %s and show its use", page, l.client)
		}
		client, err := os.ReadFile(filepath.Join(clientsDir, l.client))
		for _, use := range uses {
			if err != nil || !bytes.Contains(client, use[1]) {
				t.Errorf("%s does not have %q, which %s shows: %v", l.client, use[1], page, err)
			}
		}
	}
}
