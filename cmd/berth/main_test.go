package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/local"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestMain puts the command that people install on PATH, built without the race detector:
// with it, these tests start a thousand processes and take more than twice the CPU time. What
// of the command runs at the same time is in packages whose own tests have the detector.
func TestMain(m *testing.M) {
	child.UsualSignals()
	os.Exit(withCommand(m.Run))
}

// withCommand runs the tests with the command on PATH, and returns their exit code.
func withCommand(run func() int) int {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Without DWARF, as scripts/test links all tests: a third of the time of the link.
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", dir+string(filepath.Separator), ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n", build, err)
		return 1
	}
	os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return run()
}

// timeout bounds every wait for something that is bound to happen.
const timeout = time.Minute

// TestCommandLine needs no Redis: it is about what is refused before.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params("testdata/cli", func(*testscript.Env) error { return nil }))
}

// TestLocal has no Redis configured.
func TestLocal(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params("testdata/local", inOwnStore))
}

// TestEmbedded and TestRedis run the same scripts on both stores.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params("testdata/store", inEmbeddedStore))
}

func TestRedis(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params("testdata/store", inRedis(redistest.Start(t).URL())))
}

// shortDir is a directory for a socket, whose path must be short: t.TempDir can be too long for one.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// inOwnStore sets a script up that has no Redis configured.
func inOwnStore(env *testscript.Env) error {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		return err
	}
	env.Defer(func() { os.RemoveAll(dir) })
	// A link, since the path of a socket must be short.
	if err := os.Symlink(dir, filepath.Join(env.WorkDir, "run")); err != nil {
		return err
	}
	env.Setenv("BERTH_STORE_DIR", filepath.Join(dir, "berth"))
	env.Setenv("BERTH_LOCAL_IDLE", "50ms")
	return nil
}

// inEmbeddedStore sets a script up that has an embedded store of its own.
func inEmbeddedStore(env *testscript.Env) error {
	url, stop, err := embedded()
	if err != nil {
		return err
	}
	env.Defer(stop)
	env.Setenv("BERTH_REDIS_URL", url)
	return nil
}

// inRedis sets scripts up that share a Redis.
func inRedis(url string) func(*testscript.Env) error {
	return func(env *testscript.Env) error {
		env.Setenv("BERTH_REDIS_URL", url)
		return nil
	}
}

// TestOutage has a server for each script, which can stand still, go and come back.
func TestOutage(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/outage/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		server := redistest.Start(t)
		p := params("", func(env *testscript.Env) error {
			env.Setenv("BERTH_REDIS_URL", server.URL())
			return nil
		})
		p.Files = []string{script}
		p.Cmds["server"] = func(ts *testscript.TestScript, neg bool, args []string) {
			act := map[string]func(){
				"stop": server.Stop, "cont": server.Cont, "kill": server.Kill, "restart": func() { server.Restart(t) },
			}[strings.Join(args, " ")]
			if neg || act == nil {
				ts.Fatalf("usage: server stop|cont|kill|restart")
			}
			act()
		}
		p.Cmds["redis"] = func(_ *testscript.TestScript, _ bool, args []string) {
			var command []any
			for _, arg := range args {
				command = append(command, arg)
			}
			server.Do(t, command...)
		}
		testscript.Run(t, p)
	}
}

// embedded serves an embedded store and returns its URL.
func embedded() (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		return "", nil, err
	}
	server, err := local.Listen(filepath.Join(dir, "s"))
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return "unix://" + filepath.Join(dir, "s"), sync.OnceFunc(func() {
		server.Close()
		os.RemoveAll(dir)
	}), nil
}

func params(dir string, setup func(*testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			// Scripts share a server, so each has semaphores of its own.
			env.Setenv("SEM", filepath.Base(env.WorkDir))
			env.Values[processKey{}] = map[string]*process{}
			return setup(env)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": cmdExits, "start": cmdStart, "signal": cmdSignal, "ended": cmdEnded, "await": cmdAwait,
			"gone": cmdGone, "until": cmdUntil, "purges": cmdPurges,
		},
		RequireExplicitExec: true,
	}
}

// cmdExits is "exits CODE PROGRAM ARGS...": runs a program and checks its exit
// code; stdout and stderr match its output afterwards.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program args...")
	}
	var err error
	patiently(func() (done bool, said string) {
		err = ts.Exec(args[1], args[2:]...)
		return strconv.Itoa(exitCode(err)) == args[0], ts.ReadFile("stderr")
	})
	if got := exitCode(err); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s (%v)", got, args[0], err)
	}
}

// cmdPurges is "purges NAME REGEXP": deletes a semaphore, of which berth must say that. If it
// had no answer, it may have deleted the semaphore nevertheless.
func cmdPurges(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: purges name regexp")
	}
	var err error
	tries := 0
	patiently(func() (done bool, said string) {
		tries++
		err = ts.Exec("berth", "purge", "--yes", args[0])
		return err == nil, ts.ReadFile("stderr")
	})
	switch {
	case tries > 1 && strings.Contains(ts.ReadFile("stderr"), "is not in use, nothing was changed"):
	case err != nil || !regexp.MustCompile(args[1]).MatchString(ts.ReadFile("stdout")):
		ts.Fatalf("purge: %v, want %s", err, args[1])
	}
}

// noAnswer is how berth says that Redis has not answered in time.
var noAnswer = regexp.MustCompile(`redis (is unreachable|has not answered)`)

// patiently runs berth, and again if that is not done and Redis has not answered: some of
// its commands give Redis a second or two, which a busy machine may not have for it.
func patiently(run func() (done bool, said string)) {
	for range 10 {
		if done, said := run(); done || !noAnswer.MatchString(said) {
			return
		}
	}
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exec.ExitError); ok {
		if exit.ExitCode() < 0 { // killed; as shells report it
			return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
		}
		return exit.ExitCode()
	}
	return -1
}

type processKey struct{}

// process is a program that a script started and signals.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	code int
}

// cmdStart is "start NAME PROGRAM ARGS...": its output goes to NAME.out and
// NAME.err, and its standard input stays open.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start name program args...")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Args[0] = args[1]
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{
		"PATH", "HOME", "TMPDIR", "BERTH_STORE_DIR", "BERTH_LOCAL_IDLE", "BERTH_REDIS_URL", "REDIS_URL",
		"SEM", "WORK", "GORACE",
	} {
		if value := ts.Getenv(name); value != "" { // an empty URL would be an error
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdout = create(ts, args[0]+".out")
	cmd.Stderr = create(ts, args[0]+".err")
	// Not in the group of "go test", whose signals are not for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ts.Check(cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.code = exitCode(cmd.Wait())
	}()
	ts.Defer(func() {
		cmd.Process.Kill()
		<-p.done
	})
	ts.Value(processKey{}).(map[string]*process)[args[0]] = p
}

func create(ts *testscript.TestScript, name string) *os.File {
	f, err := os.Create(ts.MkAbs(name))
	ts.Check(err)
	ts.Defer(func() { f.Close() })
	return f
}

func named(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processKey{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("no process %q was started", name)
	}
	return p
}

// cmdSignal is "signal NAME SIGTERM": sends a signal to one process.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || unix.SignalNum(args[1]) == 0 {
		ts.Fatalf("usage: signal name SIGNAL")
	}
	ts.Check(named(ts, args[0]).cmd.Process.Signal(unix.SignalNum(args[1])))
}

// cmdEnded is "ended NAME CODE": waits for a process and checks its exit code.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended name code")
	}
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(timeout):
		ts.Fatalf("%s has not ended", args[0])
	}
	if strconv.Itoa(p.code) != args[1] {
		ts.Fatalf("%s ended with %d, want %s; stderr: %s", args[0], p.code, args[1], ts.ReadFile(args[0]+".err"))
	}
}

// cmdAwait is "await FILE [TEXT]": waits until a file has a line, or the text.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await file [text]")
	}
	want := "\n"
	if len(args) == 2 {
		want = args[1]
	}
	path := ts.MkAbs(args[0])
	if !eventually(func() bool {
		b, _ := os.ReadFile(path)
		return bytes.Contains(b, []byte(want))
	}) {
		ts.Fatalf("%s has no %q", args[0], want)
	}
}

// cmdGone is "gone FILE": waits until the process whose number is in the file
// has ended.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone pidfile")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	if !eventually(func() bool { return !running(pid) }) {
		ts.Fatalf("process %d is still there", pid)
	}
}

// cmdUntil is "until TEXT PROGRAM ARGS...": runs a program again and again
// until its standard output has the text.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until text program args...")
	}
	if !poll(200*time.Millisecond, func() bool { // a process each time: others need the CPU
		_ = ts.Exec(args[1], args[2:]...)
		return strings.Contains(ts.ReadFile("stdout"), args[0])
	}) {
		ts.Fatalf("%v never said %q", args[1:], args[0])
	}
}

// running tells whether a process is there and not merely unburied.
func running(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// eventually polls for what another process does to a file or a terminal,
// which cannot be waited for in another way.
func eventually(ok func() bool) bool { return poll(10*time.Millisecond, ok) }

func poll(every time.Duration, ok func() bool) bool {
	tick := time.NewTicker(every)
	defer tick.Stop()
	deadline := time.After(timeout)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}
