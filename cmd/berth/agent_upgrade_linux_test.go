package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUpgradeOfAnAgentLosesNobody: two agents have one socket, as systemd hands it over. The old one
// is told to end: it lets its holder finish and serves its waiter, the new one takes who comes.
func TestUpgradeOfAnAgentLosesNobody(t *testing.T) {
	t.Parallel()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	socket, err := listener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	start := func() *exec.Cmd {
		cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec berth agent --drain 1h --grace 1ms`)
		cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), "BERTH_REDIS_URL="+url, "GORACE=atexit_sleep_ms=0"), []*os.File{socket}, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		if err := unix.SetNonblock(int(socket.Fd()), true); err != nil { // as NonBlocking= in a unit does
			t.Fatal(err)
		}
		return cmd
	}
	old := start()
	holder, waiter := holdThrough(t, path), holdThrough(t, path)
	holder.wants("granted")
	waiter.wants("queued")
	if err := old.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_ = start()
	late := holdThrough(t, path)
	late.wants("queued")
	holder.close()
	waiter.wants("granted")
	waiter.close()
	late.wants("granted")
	late.close() // the old one has it, if it had not yet seen the signal
	if err := old.Wait(); err != nil {
		t.Errorf("the old agent ended with %v", err)
	}
	holdThrough(t, path).wants("granted")
}

// TestAgentServesMetricsToOtherUsers on an address of their own, since its socket is for one user.
func TestAgentServesMetricsToOtherUsers(t *testing.T) {
	t.Parallel()
	url := agentSays(t, "exec berth agent --metrics-listen 127.0.0.1:0", `metrics on (http://\S+)`)
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); !strings.Contains(string(text), "berth_agent_holding 0") {
		t.Errorf("the metrics are %.200q", text)
	}
}

// TestAgentTakesAsManyConnectionsAsFit its limit of open files, and says so.
func TestAgentTakesAsManyConnectionsAsFit(t *testing.T) {
	t.Parallel()
	if n := agentSays(t, "ulimit -n 300; exec berth agent", `only (\d+) connections fit`); n != "136" {
		t.Errorf("of 300 files it leaves %s to connections", n)
	}
}

// agentSays starts an agent by a line of a shell, which is killed with the test, and returns what the
// group of an expression matches in what it says.
func agentSays(t *testing.T, shell, expression string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", shell)
	cmd.Env = append(os.Environ(), "BERTH_REDIS_URL=redis://127.0.0.1:1", "BERTH_AGENT_SOCKET="+filepath.Join(shortDir(t), "a", "s"), "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	want := regexp.MustCompile(expression)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if found := want.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatalf("it does not say %q", expression)
	return ""
}

// held is a request through an agent.
type held struct {
	t     *testing.T
	body  *json.Decoder
	close func()
}

// holdThrough asks the agent at path for a permit of a semaphore of one, until one takes the request.
func holdThrough(t *testing.T, path string) *held {
	t.Helper()
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) },
	}}
	for deadline := time.Now().Add(timeout); ; {
		//nolint:bodyclose // close does, when the permit is to go back
		answer, err := client.Post("http://agent/v1/hold", "application/json", strings.NewReader(`{"name":"upgrade","limit":1}`))
		if err != nil {
			t.Fatal(err)
		}
		h := &held{t, json.NewDecoder(answer.Body), func() { _ = answer.Body.Close() }}
		if answer.StatusCode == http.StatusOK {
			t.Cleanup(h.close)
			return h
		}
		h.close()
		if answer.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) { // the old one, on its way out
			t.Fatalf("the agent answers %s", answer.Status)
		}
	}
}

// wants reads lines up to one with this event.
func (h *held) wants(event string) {
	h.t.Helper()
	for {
		var line struct{ Event string }
		if err := h.body.Decode(&line); err != nil {
			h.t.Fatalf("%s did not come: %v", event, err)
		}
		if line.Event == event {
			return
		}
	}
}
