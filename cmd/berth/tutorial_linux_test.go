//go:build testall

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTutorial does what docs/tutorial.md says, in an empty folder: it saves and changes main.go, and
// runs each block of commands. The checkout is a link to this one, and the Redis another.
func TestTutorial(t *testing.T) {
	t.Parallel()
	k := newKitchen(t)
	cache := strings.TrimSpace(output(t, exec.Command("go", "env", "GOMODCACHE")))
	upstream := strings.TrimSpace(output(t, exec.Command("go", "env", "GOPROXY")))
	k.env = append(os.Environ(), append(k.env, "GOWORK=", "GOTOOLCHAIN=local",
		"GOPROXY=file://"+filepath.Join(cache, "cache", "download")+","+upstream)...)
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	stand := strings.NewReplacer("git clone https://github.com/berth-go/berth\n", "rm berth; ln -s "+checkout+" berth\n",
		"redis://localhost:6379", k.url)
	semaphore := regexp.MustCompile(`(?m)^\tapi, err := .*$`)
	program, before := "", "cd calls; export BERTH_REDIS_URL="+k.url+"\n"
	want := [][]string{
		{},
		{"A makes call 3", "B makes call 3"},
		{"B makes call 3"},
		{"A makes call 3", "B makes call 3"},
		{"api", "C makes call 3"},
		{"now paused", "A makes call 3"},
		{"a call from a script"},
	}
	for _, b := range readBlocks(t, "../../docs/tutorial.md") {
		switch {
		case b.lang == "go" && program == "":
			program = b.text
			k.write("calls/main.go", program)
		case b.lang == "go":
			k.write("calls/main.go", semaphore.ReplaceAllLiteralString(program, "\t"+strings.TrimSpace(b.text)))
		case b.lang == "sh" && len(want) == 0:
			t.Fatalf("nobody knows what comes of\n%s", b.text)
		case b.lang == "sh":
			script := stand.Replace(b.text)
			if program != "" {
				script = before + script
			}
			out, code := k.try(command{args: []string{"sh", "-c", "set -e\n" + script}})
			if code != 0 {
				t.Fatalf("exit code %d of\n%s\n%s", code, script, out)
			}
			for _, w := range want[0] {
				if !strings.Contains(out, w) {
					t.Errorf("%q is not in what comes of\n%s\n%s", w, script, out)
				}
			}
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("the page has no block for %q", want)
	}
}
