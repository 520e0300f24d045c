//go:build testall

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUnitsAreValid: systemd has nothing to say about the units of deploy and of the recipes.
func TestUnitsAreValid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil || len(units) == 0 {
		t.Fatal("there are no units", err)
	}
	args := []string{"verify", "--man=no", "--recursive-errors=no"}
	unit := func(name, text string) {
		path := filepath.Join(dir, strings.Replace(name, "@", "@daemon", 1))
		text = regexp.MustCompile(`(?m)^(ExecStart=)\S+`).ReplaceAllString(text, "${1}/bin/true") // nothing is installed
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	for _, path := range units {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		unit(filepath.Base(path), string(text))
	}
	for _, b := range readBlocks(t, "../../docs/recipes.md") {
		if b.lang == "ini" {
			name, text, _ := strings.Cut(strings.TrimPrefix(b.text, "# "), "\n")
			unit(name, text)
		}
	}
	if out, err := exec.Command("systemd-analyze", args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze (of systemd): %v\n%s", err, out)
	}
}

// TestAgentUnitAndSidecar: both start an agent, know when it is ready, and end it in order.
func TestAgentUnitAndSidecar(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(t *testing.T) (args, probe []string){"unit": unitArgs, "sidecar": sidecarArgs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, probe := find(t)
			url, stop, err := embedded()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			dir := shortDir(t)
			if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil { // as a volume in memory has it
				t.Fatal(err)
			}
			socket := filepath.Join(dir, "agent", "agent.sock")
			berth := func(args []string, env ...string) *exec.Cmd {
				cmd := exec.Command("berth", args...)
				cmd.Env = append(os.Environ(), append(env, "BERTH_REDIS_URL="+url, "BERTH_AGENT_SOCKET="+socket, "GORACE=atexit_sleep_ms=0")...)
				return cmd
			}
			notices := filepath.Join(dir, "notify")
			systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notices, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer systemd.Close()
			if err := berth(probe).Run(); exitCode(err) != 69 {
				t.Errorf("before it runs the probe ends with %d", exitCode(err))
			}
			agent := berth(args, "NOTIFY_SOCKET="+notices)
			if err := agent.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { agent.Process.Kill() })
			systemd.SetReadDeadline(time.Now().Add(timeout))
			text := make([]byte, 100)
			if n, err := systemd.Read(text); err != nil || string(text[:n]) != "READY=1" {
				t.Errorf("systemd is told %q, %v", text[:n], err)
			}
			if out, err := berth(probe).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("the probe: %v, %s", err, out)
			}
			if err := agent.Process.Signal(unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := agent.Wait(); err != nil {
				t.Errorf("the agent ended with %v", err)
			}
		})
	}
}

// unitArgs are the arguments in the unit of the agent.
func unitArgs(t *testing.T) (args, probe []string) {
	line := inDeploy(t, "systemd/berth-agent@.service", `(?m)^ExecStart=/usr/local/bin/berth (.*)$`)
	if runtime := inDeploy(t, "systemd/berth-agent@.service", `(?m)^RuntimeDirectory=(.*)$`); !strings.Contains(line, " --listen /run/"+runtime+"/") {
		t.Errorf("%q does not listen in /run/%s", line, runtime)
	}
	all := strings.Fields(line)
	i := slices.Index(all, "--listen")
	return slices.Delete(all, i, i+2), []string{"agent", "--check"}
}

// sidecarArgs are the arguments in the manifest of the sidecar, and of its probe.
func sidecarArgs(t *testing.T) (args, probe []string) {
	list := func(key string) []string {
		return strings.Split(inDeploy(t, "sidecar.yaml", `(?m)^ *`+key+`: \[(.*)\]$`), ", ")
	}
	return list("args"), list("command")[1:] // the first is the image's own program
}

// inDeploy finds something in a file of deploy.
func inDeploy(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	return m[1]
}
