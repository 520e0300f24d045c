package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// In a container berth is often the first process: the one that everybody's
// orphans come to, and that the system does not end by a signal of its own.
func TestFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	contain := []string{"--pid", "--fork", "--mount-proc"}
	if os.Geteuid() != 0 {
		contain = append(contain, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(contain, "true")...).CombinedOutput(); err != nil {
		t.Skipf("this system does not let us make a PID namespace: %v: %s", err, out)
	}
	for name, tt := range map[string]struct {
		script string
		code   int
		out    string
	}{
		"it is the first":            {"echo $PPID", 0, "1"},
		"the command's code":         {"exit 7", 7, ""},
		"the command's signal":       {"kill -INT $$", 130, ""},
		"docker stop":                {"trap 'echo got TERM; exit 3' TERM; kill -TERM 1; while :; do sleep 0.02; done", 3, "got TERM"},
		"orphans do not pile up":     {"(true &); (true &); while cat /proc/[0-9]*/stat | grep -q ') Z '; do sleep 0.02; done; echo clean", 0, "clean"},
		"what is left does not stay": {"sleep 100 & echo left", 0, "left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("unshare", append(contain, "berth", "run", strings.ReplaceAll(t.Name(), "/", "."), "--", "sh", "-c", tt.script)...)
			cmd.Env = append(os.Environ(), "BERTH_REDIS_URL="+url, "GORACE=atexit_sleep_ms=0")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if got := strings.TrimSpace(string(out)); exitCode(err) != tt.code || got != tt.out || strings.Contains(stderr.String(), "berth") {
				t.Errorf("exit code %d, want %d; %q, want %q; %s", exitCode(err), tt.code, got, tt.out, stderr.String())
			}
		})
	}
}
