package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// What the live views show as the command that does the same is about that semaphore, and
// about no other that its name matches when it is read as a pattern.
func TestShownCommandChangesThatSemaphoreOnly(t *testing.T) {
	names := []string{
		"jobs[1]", "jobs1", "a*", "ab", "a?", `a\*`, `a\b`, `a\b*`, `\`, `\[`, "[", "[]", "[a-z]", "x", "a/*", "a/b", "]", "-*", "-x", "--force", "*", "?",
	}
	for _, verb := range []string{"pause", "resume", "pin", "unpin", "resize"} {
		for _, name := range names {
			args := named(t, berthwatch.Action{Verb: verb, Name: name, Limit: 1}.Args())
			if verb == "pin" || verb == "resize" {
				args = args[:len(args)-1]
			}
			var found []string
			for _, arg := range args {
				matched, err := match(arg, names)
				if err != nil {
					t.Errorf("%s of %q: %v", verb, name, err)
				}
				found = append(found, matched...)
			}
			if !slices.Equal(found, []string{name}) {
				t.Errorf("%s of %q: the command is about %q", verb, name, found)
			}
		}
	}
	for _, name := range names { // these take names
		for _, verb := range []string{"show", "purge"} {
			if got := named(t, berthwatch.Action{Verb: verb, Name: name}.Args()); !slices.Equal(got, []string{name}) {
				t.Errorf("%s of %q: the command is about %q", verb, name, got)
			}
		}
		if got := named(t, berthwatch.Action{Verb: "evict", Name: name, ID: "a.1-1"}.Args()); !slices.Equal(got, []string{name, "a.1-1"}) {
			t.Errorf("evict of %q: the command is about %q", name, got)
		}
	}
}

// named returns what the verb gets of a command line, without flags.
func named(t *testing.T, words []string) (args []string) {
	t.Helper()
	cmd := find(Root(), words[0])
	cmd.RunE = func(_ *cobra.Command, given []string) error {
		args = given
		return nil
	}
	root := cmd.Root()
	root.SetArgs(words)
	root.SetErr(io.Discard)
	if err := root.Execute(); err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return args
}

// TestCommandsAreForTheSameServer: what top and the pages show to copy must not act on another.
func TestCommandsAreForTheSameServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ url, prefix, want string }{
		{"", "berth", "berth"},
		{"", "blue green", "berth --prefix 'blue green'"},
		{"redis://staging:6379", "berth", "berth --redis redis://staging:6379"},
		{"redis://staging/1?a=b&c=d", "x", "berth --redis 'redis://staging/1?a=b&c=d' --prefix x"},
		{"redis://ann:secret@staging", "berth", "berth --redis URL"},
		{"redis+sentinel://h:1/m?sentinel_password=secret", "berth", "berth --redis URL"},
	} {
		if got := (&app{redisURL: test.url, prefix: test.prefix}).commandLine(); got != test.want {
			t.Errorf("%q, %q: %s, want %s", test.url, test.prefix, got, test.want)
		}
	}
}

// TestWordsThatPeopleType lead to the command that does it, and each command that they lead to is
// there.
func TestWordsThatPeopleType(t *testing.T) {
	root := Root()
	for typed, want := range map[string]string{
		"limit": "pin or resize", "lock": "acquire or run", "status": "ls or show", "list": "ls", "stop": "evict or pause",
		"unlock": "release", "Kill": "evict", "delete": "purge", "log": "audit", "runn": "run", "pasue": "pause",
	} {
		if got := suggestion(root, []string{typed}); got != ": did you mean "+want+"?" {
			t.Errorf("%s%s, want %s", typed, got, want)
		}
	}
	if got := suggestion(root, []string{"xyzzy"}); got != "" {
		t.Errorf("xyzzy%s", got)
	}
	root.InitDefaultHelpCmd()
	for name := range meant {
		if cmd, _, err := root.Find([]string{name}); err != nil || cmd == root {
			t.Errorf("there is no command %s", name)
		}
	}
}

// TestRefusalsNameFlags and not what the library calls them.
func TestRefusalsNameFlags(t *testing.T) {
	for what, flag := range flagOf {
		err := inFlags(fmt.Errorf("no: %w", &berth.InvalidError{What: what, Reason: "it is too much"}))
		if exit.Of(err) != exit.Usage || err.Error() != flag+": it is too much" {
			t.Errorf("%s: %v", what, err)
		}
		name, isFlag := strings.CutPrefix(flag, "--")
		run, pause := find(Root(), "run"), find(Root(), "pause")
		if isFlag && run.Flags().Lookup(name) == nil && run.InheritedFlags().Lookup(name) == nil && pause.Flags().Lookup(name) == nil {
			t.Errorf("there is no %s", flag)
		}
	}
	client, err := berth.New(redis.NewClient(&redis.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]berth.Option{
		"--ttl": berth.TTL(1), "--weight": berth.Weight(0), "--max-hold": berth.MaxHold(1), "--queue-limit": berth.QueueLimit(-1),
		"--rate": berth.Rate(0, 1), "--cost": berth.Cost(-1), "--tenant": berth.Tenant(""), "--share": berth.Share(0), "--label": berth.Label("\n"),
	} {
		_, err := client.Semaphore("s", 1, o)
		if got := fmt.Sprint(inFlags(err)); !strings.HasPrefix(got, want+": ") {
			t.Errorf("%s: %s", want, got)
		}
	}
}
