package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// hostile is text that would clear a screen, retitle a window, reorder what
// stands beside it and begin lines of its own, in seven bits, eight, and UTF-8.
const hostile = "\x1b[2J\x1b]0;title\a\x9b31m\u009b31m\u202e\u2066\u200f\u2028\r\n\x7f\xff<script>'\"${x}"

// outputs runs berth and returns what it wrote.
func outputs(url string, args ...string) (stdout, stderr string) {
	cmd := exec.Command("berth", args...)
	cmd.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "GORACE=atexit_sleep_ms=0")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the text is what this is about
	return out.String(), errs.String()
}

// servedOutputs is outputs on a Redis that serves berth, if not always in time.
func servedOutputs(url string, args ...string) (stdout, stderr string) {
	patiently(func() (bool, string) {
		stdout, stderr = outputs(url, args...)
		return false, stderr
	})
	return stdout, stderr
}

// wantCalm fails if a text could do more to a terminal than fill lines.
func wantCalm(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
	}) {
		t.Errorf("%s: %q", what, text)
	}
}

// haunt leaves a semaphore whose records somebody else has rewritten: its
// holder's and waiter's hosts, labels and ids are hostile.
func haunt(t *testing.T, rdb *redis.Client) (id string) {
	t.Helper()
	ctx := t.Context()
	id = strings.ReplaceAll(hostile, " ", "")
	host := strings.NewReplacer(" ", "", "/", "").Replace(hostile)
	const at, till = "1790000000000000", "4000000000000"
	// The key and its companion, as the header of transition.lua has them.
	const note = "berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes, so Redis keeps a skip list"
	for _, cmd := range [][]any{
		{"HSET", "berth:{s}", "state", "3 1 -1 0 0 1 1 1 0 1 " + at + " " + till + " " + till + " 0 0 -"},
		{"HSET", "berth:{s}", id, "h 1 0 " + at + " 0 30000 - 1/" + host + ";" + host + " " + hostile},
		{"HSET", "berth:{s}", "w" + id, "w 1 - " + at + " 0 30000 15000 1/" + host + ";" + host + " " + hostile},
		{"ZADD", "berth:{s}:order", "4000000000", note, till, id, till, "w" + id, "-7217199254740992", "#w" + id},
	} {
		if err := rdb.Do(ctx, cmd...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// What others have written straight into Redis, and what a command line has in
// it, comes out on a terminal as plain text, and in JSON as a string.
func TestHostileText(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	id := haunt(t, server.Client(t))
	stdout, stderr := servedOutputs(server.URL(), "show", "s", "--json")
	var state struct{ Leases, Queue []struct{ Label string } }
	if err := json.Unmarshal([]byte(stdout), &state); err != nil || len(state.Leases) != 1 || len(state.Queue) != 1 {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	if want := strings.ToValidUTF8(hostile, "\ufffd"); state.Leases[0].Label != want {
		t.Errorf("JSON says %q, want %q", state.Leases[0].Label, want)
	}
	arg := strings.ReplaceAll(hostile, "\xff", "") // arguments may be anything but NUL
	for _, args := range [][]string{
		{"ls"},
		{"show", "s"},
		{"ls", "--json"},
		{"show", "s", "--json"},
		{"doctor"},
		{"doctor", "--json"},
		{"run", "--no-wait", "s", "--", "true"},
		{"run", "-w", "50ms", "s", "--", "true"},
		{"run", "--queue-limit", "1", "s", "--", "true"},
		{"acquire", "--no-wait", "s"},
		{"acquire", "-w", "50ms", "--label", arg, "s"},
		{"release", arg},
		{"renew", hostile},
		{"evict", "--yes", "s", id},
		{"evict", "--yes", "s", arg},
		{"evict", "--yes", "--host", arg, "*"},
		{"evict", "--yes", "--label", arg, "*"},
		{"pause", "--yes", "*"},
		{"resume", "--yes", "*"},
		{"show", arg},
		{"pause", arg},
		{"pin", "s", arg},
		{"purge", arg},
		{"purge", "--yes", hostile},
		{"run", arg, "--", "true"},
		{"run", "s", "--", arg},
		{"run", arg, arg},
		{arg},
		{"--" + arg},
		{"run", "--" + arg},
		{"--redis", arg, "ls"},
		{"--prefix", arg, "ls"},
		{"run", "-n", arg, "s", "--", "true"},
	} {
		inJSON, run := args[len(args)-1] == "--json", outputs
		if inJSON {
			run = servedOutputs
		}
		stdout, stderr := run(server.URL(), args...)
		wantCalm(t, strings.Join(args, " "), stdout+stderr)
		if inJSON && !json.Valid([]byte(stdout)) {
			t.Errorf("%v: no JSON: %q", args, stdout)
		}
	}
}

// A password that berth is given shows up nowhere: not in what it says, nor in
// the environment or the arguments of what it starts.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	server := redistest.Start(t, redistest.WithConfig("requirepass "+secret, "maxmemory 1mb"))
	good := strings.Replace(server.URL(), "unix://", "unix://:"+secret+"@", 1)
	bad := strings.Replace(server.URL(), "unix://", "unix://u:"+secret+"x@", 1)
	for _, url := range []string{good, bad, "redis://u:" + secret + "@127.0.0.1:1", "redis+sentinel://127.0.0.1:1/m?sentinel_password=" + secret} {
		for _, args := range [][]string{
			{"ls"}, {"doctor"}, {"doctor", "--json"}, {"acquire", "--no-wait", "s"}, {"run", "-w", "50ms", "s", "--", "true"}, {"pin", "s", "1"},
		} {
			stdout, stderr := outputs(url, args...)
			if strings.Contains(stdout+stderr, secret) {
				t.Errorf("%v shows it: %s%s", args, stdout, stderr)
			}
		}
		stdout, _ := outputs("", "--redis", url, "run", "-w", "50ms", "s", "--", "env")
		if strings.Contains(stdout, secret) {
			t.Errorf("the command's environment has it: %s", stdout)
		}
	}
}

// The command of berth run has its user's own environment, the URL included: it
// may use berth itself, and what it can read its user could.
func TestCommandInheritsItsUsersEnvironment(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stdout, _ := servedOutputs(server.URL(), "run", "s", "--", "sh", "-c", `echo "$BERTH_REDIS_URL"`)
	if stdout != server.URL()+"\n" {
		t.Errorf("it has %q", stdout)
	}
}

// This machine's own store is its user's alone, and knows nothing of whoever
// happened to start it.
func TestOwnStoreIsPrivate(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cmd := exec.Command("sh", "-c", "umask 0; exec berth -q acquire --ttl 1m s")
	cmd.Env = append(os.Environ(), "BERTH_REDIS_URL=local:", "BERTH_STORE_DIR="+filepath.Join(dir, "berth"), "BERTH_LOCAL_IDLE=50ms", "TOKEN=hunter2")
	handle, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		"": os.ModeDir | 0o700, "sock": os.ModeSocket | 0o600, "store.lock": 0o600, "start.lock": 0o600, "store.log": 0o600,
	} {
		if info, err := os.Lstat(filepath.Join(dir, "berth", name)); err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "berth", "store.lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" {
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || bytes.Contains(environ, []byte("hunter2")) {
			t.Errorf("the store's environment: %q, %v", environ, err)
		}
	}
	release := exec.Command("berth", "-q", "release", strings.TrimSpace(string(handle)))
	release.Env = cmd.Env
	if out, err := release.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if !eventually(func() bool { return !running(pid) }) {
		t.Error("the store has not gone")
	}
}
