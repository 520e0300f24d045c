package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/run"
)

// unsetURLs leaves no URL in the environment.
func unsetURLs(t *testing.T) {
	t.Helper()
	for _, name := range []string{run.URLVariable, run.URLFileVariable, run.SharedURLVariable} {
		t.Setenv(name, "") // puts back what is there
		os.Unsetenv(name)
	}
}

// TestEmptyURLStopsEveryCommand that would otherwise use this machine's own store.
func TestEmptyURLStopsEveryCommand(t *testing.T) {
	needNone := map[string]bool{"demo": true, workerName: true, storeName: true, "completion": true, "version": true}
	args := map[string]string{
		"run": "s -- true", "acquire": "s", "renew": "h", "release": "h", "show": "s", "top": "--once",
		"resize": "s 1", "pin": "s 1", "unpin": "s", "pause": "s", "resume": "s", "evict": "--yes s x", "purge": "--yes s",
	}
	unsetURLs(t)
	t.Setenv(run.URLVariable, "")
	for _, cmd := range Root().Commands() {
		if needNone[cmd.Name()] || !cmd.Runnable() {
			continue
		}
		a := newApp(os.Stdin, os.Stdout, os.Stderr)
		a.startNothing = true
		root := a.root()
		root.SetArgs(append([]string{cmd.Name()}, strings.Fields(args[cmd.Name()])...))
		if err := root.ExecuteContext(t.Context()); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "$BERTH_REDIS_URL is empty") {
			t.Errorf("berth %s %s: exit code %d, %v", cmd.Name(), args[cmd.Name()], exit.Of(err), err)
		}
	}
}

// TestWhereTheURLIsFrom: what is there and has only white space is an error, wherever it is from,
// and what stands before it is used without a look at it.
func TestWhereTheURLIsFrom(t *testing.T) {
	const url = "redis://127.0.0.1:1"
	dir := t.TempDir()
	file := func(text string) string {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	const own, of, shared = run.URLVariable, run.URLFileVariable, run.SharedURLVariable
	for name, tt := range map[string]struct {
		flag        string
		env         map[string]string
		source, raw string
		wrong       string // what the error names
	}{
		"nothing":                       {},
		"a flag of white space":         {flag: " \t", wrong: "--redis is empty"},
		"a flag":                        {flag: url, env: map[string]string{own: ""}, source: "--redis", raw: url},
		"white space":                   {env: map[string]string{own: " \r\n"}, wrong: "$" + own + " is empty"},
		"white space around":            {env: map[string]string{own: " " + url + "\n"}, source: "$" + own, raw: url},
		"no name of a file":             {env: map[string]string{of: ""}, wrong: "$" + of + " is empty"},
		"no file":                       {env: map[string]string{of: filepath.Join(dir, "none")}, wrong: "no such file"},
		"an empty file":                 {env: map[string]string{of: file("\r\n"), shared: url}, wrong: "$" + of + " is empty"},
		"a file":                        {env: map[string]string{of: file("\n " + url + "\r\n"), shared: ""}, source: "$" + of, raw: url},
		"an application's empty URL":    {env: map[string]string{shared: ""}, wrong: "$" + shared + " is empty"},
		"own, and an application's":     {env: map[string]string{own: url, shared: ""}, source: "$" + own, raw: url},
		"empty, and an application's":   {env: map[string]string{own: "", shared: url}, wrong: "$" + own + " is empty"},
		"this machine's, and a newline": {env: map[string]string{own: "local:\n"}, source: "$" + own, raw: localURL},
	} {
		t.Run(name, func(t *testing.T) {
			unsetURLs(t)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			source, raw, err := (&app{redisURL: tt.flag}).redisSource()
			if source != tt.source || raw != tt.raw || (err != nil) != (tt.wrong != "") {
				t.Errorf("%q from %q, %v; want %q from %q", raw, source, err, tt.raw, tt.source)
			}
			if err != nil && (exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("exit code %d, %v; want %s", exit.Of(err), err, tt.wrong)
			}
		})
	}
}
