//go:build testall

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// double is an agent that a story plays.
type double struct {
	net.Conn
	*office
}

// played starts a program whose agent is the story.
func (o *office) played() (*driver, double) {
	o.Helper()
	path := filepath.Join(shortDir(o.T), "s")
	l, err := net.Listen("unix", path)
	o.Must(err)
	defer l.Close()
	d := o.programOf("BERTH_AGENT_SOCKET="+path, `{}`)
	conn, err := l.Accept()
	o.Must(err)
	o.Cleanup(func() { conn.Close() })
	request, err := http.ReadRequest(bufio.NewReader(conn))
	o.Must(err)
	_, err = io.Copy(io.Discard, request.Body)
	o.Must(err)
	_, err = io.WriteString(conn, head)
	o.Must(err)
	return d, double{conn, o}
}

// says writes a line.
func (d double) says(format string, a ...any) {
	d.Helper()
	_, err := fmt.Fprintf(d, format+"\n", a...)
	d.Must(err)
}

const doubleGrants = `{"event":"granted","slot":0,"token":1,"limit":1,"until_boot_ms":1,"remaining_ms":0}`

// renewed: a program relies on its permit for as long as the last line says.
func renewed(o *office) {
	d, agent := o.played()
	agent.says(doubleGrants)
	d.says("granted 0")
	renew := fmt.Sprintf(`{"event":"renewed","until_boot_ms":%d,"remaining_ms":3600000}`, (boottime() + time.Hour).Milliseconds())
	if o.poor {
		const buffers = 1 << 18 // hold less: when all is written, most was read
		agent.says("%s", strings.Repeat(renew+"\n", buffers/len(renew)))
		d.told("release", "released")
		return
	}
	d.told("valid", "valid false")
	agent.says("%s", renew)
	agent.says(`{"event":"stop","reason":"evicted","remaining_ms":3600000}`)
	d.says("stop") // and has read what was before it
	d.told("valid", "valid true")
	o.Must(d.Tell("release"))
	_, err := io.Copy(io.Discard, agent) // to the end of its half
	o.Must(err)
	agent.says(`{"event":"released"}`)
	o.Must(agent.Close())
	d.says("released")
}

// interrupted: a program that gives its wait up, and lives on, gets no permit that it knows
// nothing of, even if a fork of it has a copy of the connection.
func interrupted(o *office) {
	for _, way := range o.waits {
		lease := o.next()
		d := o.program(`{}`, strings.Fields(way)...)
		o.UntilWaiting(1)
		o.Must(d.Cmd.Process.Signal(unix.SIGINT))
		d.says("gave up")
		if way != "future" { // which can be granted, and has nobody then
			o.UntilWaiting(0)
		}
		o.Release(lease)
		o.Release(o.next())
	}
}

// dropped: a hold that the program has lost sight of is told, and stays, as its work may go on.
func dropped(o *office) {
	if !o.drops {
		return
	}
	d := o.program(`{}`, "drop")
	d.says("ResourceWarning")
	o.inUse()
	d.Kill()
	o.Release(o.next())
}

// inUse fails unless the program has the permit.
func (o *office) inUse() {
	o.Helper()
	if st := o.Show(); st.InUse != 1 {
		o.Fatalf("%d permits are in use", st.InUse)
	}
}

// forked: a child that leaves the block ends nothing.
func forked(o *office) {
	if !o.forks {
		return
	}
	d := o.holds(`{}`)
	d.told("fork", "forked")
	d.told("valid", "valid true")
	o.inUse()
	d.told("release", "released")
	o.Release(o.next())
}

// takenAway: a permit that somebody else gave back is lost.
func takenAway(o *office) {
	d, agent := o.played()
	agent.says(doubleGrants)
	d.says("granted 0")
	agent.says(`{"event":"released"}`)
	o.Must(agent.Close())
	d.says("stop")
	if !o.poor {
		o.Must(d.Tell("release"))
	}
	d.says("lost")
}

// known: an operator sees the program, and no other with the same agent.
func known(o *office) {
	d := o.holds(`{}`)
	d.seen()
	d.told("release", "released")
	o.Release(o.next())
}

// seen fails unless the holder that operators see is the program.
func (d *driver) seen() {
	d.Helper()
	if st := d.Show(); len(st.Leases) != 1 || st.Leases[0].PID != d.Cmd.Process.Pid {
		d.Errorf("of process %d they see %+v", d.Cmd.Process.Pid, st.Leases)
	}
}

// several: a program holds a permit of each of its limits, and knows which.
func several(o *office) {
	d := o.program(`{}`, "all")
	d.says("granted 0 narrow " + testenv.Name)
	o.inUse()
	d.told("release", "released")
	o.Release(o.next())
}

// settled: a program says what its permit may cost, and then what it has cost.
func settled(o *office) {
	d := o.program(`{"rates":[{"unit":"tokens","n":1000,"per_ms":600000}],"costs":{"tokens":900}}`, "settle")
	d.says("granted 0")
	sem, err := o.goes.Semaphore(testenv.Name, 1)
	o.Must(err)
	spent := func() int {
		var heavy *berth.TooHeavyError
		for {
			if _, err := sem.TryAcquire(o.Ctx, berth.Cost(1001).Of("tokens")); errors.As(err, &heavy) {
				return heavy.Spent
			} else if !errors.Is(err, berth.ErrUnreachable) {
				o.Fatal(err)
			}
		}
	}
	if n := spent(); n != 900 {
		o.Errorf("%d are spent, want 900", n)
	}
	d.told("settle", "settled")
	for spent() != 0 { // a client does not wait for it
		o.Pass(o.Tick())
	}
	d.told("release", "released")
}

// cooled: a program pauses a semaphore for all, and operators see which program it was.
func cooled(o *office) {
	d := o.program(`{}`, "cool")
	d.says("paused")
	st := o.Show()
	if by := fmt.Sprintf(":%d)", d.Cmd.Process.Pid); !st.Paused || st.PausedFor > 10*time.Minute || !strings.HasSuffix(st.PausedBy, by) {
		o.Errorf("the semaphore is %+v, want one paused by process %d", st.Summary, d.Cmd.Process.Pid)
	}
	o.Must(o.Inspector.Resume(o.Ctx, testenv.Name))
}

// overTCP: a program of another user comes with the token, to which nothing but it opens the agent.
func overTCP(o *office) {
	tcp := &office{Env: o.Env, language: o.language, goes: o.goes, path: "127.0.0.1:0", token: "se-cret"}
	tcp.open()
	defer tcp.killAgent()
	d := tcp.holds(`{}`)
	o.inUse()
	d.seen()
	d.told("release", "released")
	o.Release(o.next())
	tcp.token = "another"
	tcp.program(`{}`).says("refused unauthorized")
}

// stopped: an agent that answers nothing holds nobody up for longer than the program said, and a
// while.
func stopped(o *office) {
	o.Must(o.agent.Cmd.Process.Signal(unix.SIGSTOP))
	o.program(`{"wait_ms":500}`).says(o.withoutAgent())
	o.Must(o.agent.Cmd.Process.Signal(unix.SIGCONT))
}

// garbage: what is no agent gives no permit, and keeps none.
func garbage(o *office) {
	for _, text := range []string{"<html>", "{", "[1]", "null", `{"slot":1}`} {
		d, other := o.played()
		other.says("%s", text)
		d.says(o.withoutAgent())
		d.Kill()
	}
	d, other := o.played()
	other.says(doubleGrants)
	d.says("granted 0")
	other.says("<html>")
	d.says("stop")
	if !o.poor {
		o.Must(d.Tell("release"))
	}
	d.says("lost")
}

// withoutAgent is what a program says that no agent has answered.
func (o *office) withoutAgent() string {
	if o.poor {
		return "refused "
	}
	return "refused gone"
}

// TestClientsTrustNoOthersSocket: the default directory is in /tmp, where somebody else may have
// made it first.
func TestClientsTrustNoOthersSocket(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, l)
			dir, link := shortDir(t), filepath.Join(shortDir(t), "link")
			listener, err := net.Listen("unix", filepath.Join(dir, "agent.sock"))
			o.Must(err)
			defer listener.Close()
			go func() {
				for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
					_, _ = io.WriteString(conn, head+doubleGrants+"\n")
					defer conn.Close()
				}
			}()
			o.Must(os.Symlink(dir, link)) // whose owner could let it lead elsewhere
			for _, others := range []string{link, dir} {
				o.Must(os.Lchown(others, 65534, 65534))
				d := o.programOf("BERTH_STORE_DIR="+others, `{}`)
				var said string
				if err := d.Hear(o.Ctx, &said); err != nil || !strings.HasPrefix(said, "refused ") {
					t.Errorf("of %s it says %q, %v", others, said, err)
				}
			}
		})
	}
}
