package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// block is one fenced block of docs/recipes.md.
type block struct {
	key  string // its heading and its number below that
	lang string
	text string
}

// command is one line of a block that something runs: a shell, or nothing
// between cron, systemd or a container's engine and the program.
type command struct {
	args []string
	env  []string // nil for the test's own
	okay []int    // exit codes that count as success
}

// What the commands of each block call, in any order.
var recipes = map[string]string{
	"Coming from flock 1":                "backup|dump|upload",
	"Coming from flock 2":                "query|rebuild",
	"Coming from flock 3":                "migrate|deploy",
	"Coming from GNU sem and parallel 1": "sync a|sync b|sync c|sync a|sync b|sync c",
	"Coming from GNU sem and parallel 2": "train a on a slot|train b on a slot",
	"Coming from consul lock 1":          "import --all",
	"cron 1":                             "report --all|backup /home",
	"cron 2":                             "report --night",
	"Two limits for one command 1":       "sync acme",
	"systemd 1":                          "", // a timer, for the service below
	"systemd 2":                          "report --all",
	"systemd 3":                          "worker",
	"CI 1":                               "deploy",
	"CI 2":                               "deploy",
	"make 1":                             "link a.out|link b.out|link c.out",
	"Containers 1":                       "worker --all",
}

// Every block of the page is run, with programs in place of those that it names,
// and those that do not wait are run while others hold the permit.
func TestRecipes(t *testing.T) {
	t.Parallel()
	unseen := maps.Clone(recipes)
	for _, b := range readBlocks(t, "../../docs/recipes.md") {
		want, ok := recipes[b.key]
		if !ok {
			t.Errorf("%s is not tested", b.key)
		}
		delete(unseen, b.key)
		t.Run(b.key, func(t *testing.T) {
			t.Parallel()
			kitchen := newKitchen(t)
			for _, c := range kitchen.commands(b) {
				if _, code := kitchen.run(c); code != 0 {
					t.Errorf("%q: exit code %d", c.args, code)
				}
			}
			kitchen.wantCalls(want)
			for _, c := range kitchen.commands(b) {
				kitchen.busy(c)
			}
		})
	}
	for key := range unseen {
		t.Errorf("%s is not on the page", key)
	}
}

// TestRecipesOfCIStopWithoutTheURL: a job that does not get its secret must not deploy beside others.
func TestRecipesOfCIStopWithoutTheURL(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, b := range readBlocks(t, "../../docs/recipes.md") {
		if b.lang != "yaml" {
			continue
		}
		tried++
		kitchen := newKitchen(t)
		own := append(kitchen.env, "BERTH_STORE_DIR="+kitchen.dir+"/s", "BERTH_LOCAL_IDLE=50ms")
		for name, env := range map[string][]string{
			"empty": append(own, "BERTH_REDIS_URL="),
			"unset": slices.DeleteFunc(slices.Clone(own), func(v string) bool { return strings.HasPrefix(v, "BERTH_REDIS_URL=") }),
		} {
			for _, c := range kitchen.commands(b) {
				c.env = env
				if out, code := kitchen.try(c); code == 0 {
					t.Errorf("%s, %s: exit code 0, %q", b.key, name, out)
				}
				kitchen.wantCalls("")
			}
		}
	}
	if tried == 0 {
		t.Error("no recipe is of CI")
	}
}

func readBlocks(t *testing.T, path string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	heading, number := "", 0
	parts := strings.Split(string(text), "\n```")
	for i := 0; i+1 < len(parts); i += 2 {
		if all := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(parts[i], -1); all != nil {
			heading, number = all[len(all)-1][1], 0
		}
		number++
		lang, code, _ := strings.Cut(parts[i+1], "\n")
		blocks = append(blocks, block{fmt.Sprintf("%s %d", heading, number), lang, code + "\n"})
	}
	return blocks
}

// kitchen is a store, and a directory with a program for each name that the
// recipes call. A program writes its name and arguments into a file.
type kitchen struct {
	t   *testing.T
	dir string
	url string
	env []string
}

const program = `#!/bin/sh
case $CUDA_VISIBLE_DEVICES in [0-3]) slot=" on a slot" ;; esac
echo "${0##*/}${1+ $*}$slot" >>"${0%/*}/calls"
`

func newKitchen(t *testing.T) *kitchen {
	t.Helper()
	url, stop, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	k := &kitchen{t: t, dir: t.TempDir(), url: url}
	for _, name := range []string{
		"backup", "dump", "upload", "query", "rebuild", "migrate", "deploy", "sync", "train", "import", "report", "worker", "link",
	} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path, err := exec.LookPath("berth")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(k.dir, "berth")); err != nil {
		t.Fatal(err)
	}
	k.env = []string{
		"PATH=" + k.dir + ":" + os.Getenv("PATH"), "BERTH_REDIS_URL=" + url, "GORACE=atexit_sleep_ms=0",
		"GITHUB_RUN_ID=1", "CI_JOB_ID=2",
	}
	return k
}

// commands takes a block apart as whatever it is for does.
func (k *kitchen) commands(b block) []command {
	text := strings.NewReplacer("redis://127.0.0.1:6379", k.url, "/usr/local/bin", k.dir).Replace(b.text)
	switch b.lang {
	case "sh":
		return []command{{args: []string{"sh", "-e", "-c", text}}} // no line fails unnoticed
	case "yaml":
		script := "set -e" // as runners do
		for _, m := range regexp.MustCompile(`(?m)^ *(?:- )?((?:test|berth) .*)$`).FindAllStringSubmatch(text, -1) {
			script += "\n" + m[1]
		}
		return []command{{args: []string{"sh", "-c", script}}}
	case "make":
		if err := os.WriteFile(filepath.Join(k.dir, "Makefile"), []byte(text), 0o600); err != nil {
			k.t.Fatal(err)
		}
		return []command{{args: []string{"make", "-j16"}}}
	case "dockerfile":
		var args []string
		for _, m := range regexp.MustCompile(`(?m)^(?:ENTRYPOINT|CMD) (.*)$`).FindAllStringSubmatch(text, -1) {
			var part []string
			if err := json.Unmarshal([]byte(m[1]), &part); err != nil {
				k.t.Fatal(err)
			}
			args = append(args, part...)
		}
		return []command{{args: args}}
	case "crontab":
		return k.crontab(text)
	case "ini":
		return k.unit(text)
	}
	k.t.Fatalf("nothing is known to run %q", b.lang)
	return nil
}

// crontab does as cron: a small environment, and a shell for each line.
func (k *kitchen) crontab(text string) (commands []command) {
	env := []string{"HOME=" + k.dir, "LOGNAME=nobody", "SHELL=/bin/sh", "GORACE=atexit_sleep_ms=0"}
	assignment := regexp.MustCompile(`^[A-Z_]+=`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch fields := strings.SplitN(line, " ", 6); {
		case line == "" || line[0] == '#':
		case assignment.MatchString(line):
			env = append(env, line)
		case len(fields) == 6:
			commands = append(commands, command{args: []string{"/bin/sh", "-c", fields[5]}, env: env})
		default:
			k.t.Errorf("no line of a crontab: %q", line)
		}
	}
	return commands
}

// unit does as systemd: its own environment, and no shell.
func (k *kitchen) unit(text string) []command {
	c := command{env: []string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}}
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "Environment":
			c.env = append(c.env, value)
		case "ExecStart":
			c.args = strings.Fields(value)
		case "SuccessExitStatus":
			code, err := strconv.Atoi(value)
			if err != nil {
				k.t.Error(err)
			}
			c.okay = append(c.okay, code)
		}
	}
	if c.args == nil {
		return nil
	}
	return []command{c}
}

// run runs a command and returns what it says and its exit code, 0 for those
// that count as success.
func (k *kitchen) run(c command) (out string, code int) {
	k.t.Helper()
	calls := filepath.Join(k.dir, "calls")
	before, err := os.ReadFile(calls)
	patiently(func() (bool, string) {
		if out != "" && err == nil { // not the first attempt
			err = os.WriteFile(calls, before, 0o600)
		} else if out != "" {
			_ = os.Remove(calls)
		}
		out, code = k.try(c)
		return code == 0, out
	})
	if code != 0 {
		k.t.Logf("%q: %s", c.args, out)
	}
	return out, code
}

// try is one attempt of run.
func (k *kitchen) try(c command) (out string, code int) {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	if !strings.Contains(c.args[0], "/") {
		cmd = exec.Command("env", c.args...) // looks into the PATH below
	}
	cmd.Dir, cmd.Env = k.dir, k.env
	if c.env != nil {
		cmd.Env = c.env
	}
	text, err := cmd.CombinedOutput()
	if code = exitCode(err); slices.Contains(c.okay, code) {
		code = 0
	}
	return string(text), code
}

// wantCalls compares what has been called, in any order.
func (k *kitchen) wantCalls(want string) {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(k.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		k.t.Fatal(err)
	}
	got := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	wanted := strings.FieldsFunc(want, func(r rune) bool { return r == '|' })
	slices.Sort(got)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		k.t.Errorf("called were %q, want %q", got, wanted)
	}
}

// busy runs a command that does not wait while others hold the permit: it counts
// as success, calls nothing and says nothing.
func (k *kitchen) busy(c command) {
	k.t.Helper()
	line := strings.Join(c.args, " ")
	m := regexp.MustCompile(`(berth run [^\n]*--no-wait[^\n]* (\S+) --) [^\n]*`).FindStringSubmatch(line)
	if m == nil {
		return
	}
	if !strings.HasSuffix(c.args[0], "/berth") { // the one line alone, should there be more
		c.args = []string{"/bin/sh", "-c", m[0]}
	}
	if strings.Contains(line, "--rate") { // it is spent
		_ = os.Remove(filepath.Join(k.dir, "calls"))
		if out, code := k.try(c); code != 0 || out != "" {
			k.t.Errorf("for the second time: exit code %d, %q", code, out)
		}
		k.wantCalls("")
		return
	}
	handle, code := k.run(command{args: []string{"berth", "acquire", m[2]}})
	if code != 0 {
		k.t.Fatal("no permit for the test")
	}
	_ = os.Remove(filepath.Join(k.dir, "calls"))
	if out, code := k.run(c); code != 0 || out != "" {
		k.t.Errorf("while it is busy: exit code %d, %q", code, out)
	}
	k.wantCalls("")
	k.run(command{args: []string{"berth", "release", strings.TrimSpace(handle)}})
}
