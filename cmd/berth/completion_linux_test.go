//go:build testall

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// complete types the beginning of a line and TAB, waits for what that must add,
// types the rest, and waits for what the line then does.
func (term *terminal) complete(begin, added, rest, then string) {
	term.t.Helper()
	term.send(begin + "\t")
	term.expect(added)
	term.send(rest + "\n")
	term.expect(then)
	term.expect("ready> ")
}

// Names that a shell would execute, or take for something else.
var traps = []string{"$(touch trap)", "`touch trap`", "a;touch trap", "a|touch trap", "it's", "a b", "-x", "~root", "a&touch trap&"}

// shells are those that berth completes for.
var shells = map[string]struct {
	args  []string
	setup string
}{
	"bash": {
		[]string{"bash", "--noprofile", "--norc", "-i"},
		"source /usr/share/bash-completion/bash_completion && source <(berth completion bash)",
	},
	"zsh": {
		[]string{"zsh", "-f", "-i"},
		"autoload -Uz compinit && compinit -u -D && source <(berth completion zsh)",
	},
	"fish": {
		[]string{"fish", "--private", "--no-config", "-i", "-C", "function fish_prompt; echo -n 'ready> '; end"},
		"berth completion fish | source",
	},
}

// TAB completes names, lease ids, flags, their choices and programs, and offers
// nothing that would do something else than stand there.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stop, err := embedded()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			populate(t, url)
			term, home := openTerminal(t, url, shell.args...)
			term.send(shell.setup + " && echo set-\"\"up\n")
			term.expect("set-up")
			term.expect("ready> ")

			completes(t, term, home)
		})
	}
}

// completes checks what TAB does in a terminal whose shell completes for berth.
func completes(t *testing.T, term *terminal, home string) {
	t.Helper()
	term.complete("berth show b:", "colon", "", "b:colon: 0 of 3 in use")
	term.complete("berth show 漢", "字", "", "漢字: 0 of 3 in use")
	term.complete("berth pin b:colon deep/n", "ame", "4", "deep/name: limit 3 → 4")
	term.complete("berth evict --yes --force held ", ".", "", "its permits are free")
	term.complete("berth evict --yes --label sl", "ow", "waits", "is told to stop")
	term.complete("berth run --on-lost w", "arn", " s -- echo do\"\"ne", "done")
	term.complete("berth run s -- basenam", "e", " /x/ba\"\"se", "base")
	term.complete("berth serve hash-password --role op", "erate", " --help", "not shown")
	term.complete("berth ls --js", "on", "", "漢字")
	term.complete("berth comp", "letion", " tcsh", "one of bash, zsh, fish")

	if err := os.WriteFile(filepath.Join(home, "users"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term.complete("berth serve --auth-file "+home+"/us", "ers", " --help", "with the certificate")

	before := len(term.shown())
	term.send("berth show \t\t")
	term.expect("deep/name")
	term.send("\x15") // clear the line
	term.send("echo al\"\"ive\n")
	term.expect("alive")
	for _, trap := range traps {
		if offer := term.shown()[before:]; strings.Contains(offer, trap) {
			t.Errorf("%s is offered", trap)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "trap")); err == nil {
		t.Error("completion has run a name")
	}
}

// shown returns what the terminal has shown so far.
func (term *terminal) shown() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.seen.String()
}

// populate fills a store with what there is to complete, traps included.
func populate(t *testing.T, url string) {
	t.Helper()
	for _, args := range [][]string{
		append(append([]string{"pin", "--create", "--"}, traps...), "b:colon", "漢字", "deep/name", "3"),
		{"acquire", "--label", "$(touch trap)", "held"},
		{"acquire", "--label", "slow", "waits"},
	} {
		if code, stderr := served(url, args...); code != 0 {
			t.Fatalf("berth %q: %s", args, stderr)
		}
	}
}
