package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/cmd/berth/internal/view"
	"github.com/berth-go/berth/internal/words"
)

// completionTimeout is how long TAB waits at most, unless $BERTH_COMPLETION_TIMEOUT is
// set.
const completionTimeout = time.Second

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a shell's completion script",
		Long: `Print a script that completes berth's commands, flags, the names of semaphores
in use and the ids of leases.

  bash   with the package bash-completion, in ~/.bashrc:
           source <(berth completion bash)
  zsh    after compinit, in ~/.zshrc:
           source <(berth completion zsh)
  fish   once:
           berth completion fish >~/.config/fish/completions/berth.fish

TAB waits for Redis for $BERTH_COMPLETION_TIMEOUT, by default 1s. Names that a
shell would have to quote are not offered.`,
		Example:   "  berth completion bash",
		GroupID:   groupOther,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return exit.Usagef("there is completion for one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var script bytes.Buffer
			switch args[0] {
			case "bash":
				err = cmd.Root().GenBashCompletionV2(&script, true)
			case "zsh":
				err = cmd.Root().GenZshCompletion(&script)
			case "fish":
				err = cmd.Root().GenFishCompletion(&script, true)
			}
			if err != nil {
				return err
			}
			return a.print(script.String())
		},
	}
}

// addCompletion sets the completion of the arguments of all commands of root. Commands
// that are not named here complete nothing, not even files.
func (a *app) addCompletion(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	one, many := a.completeNames(1, everyOne), a.completeNames(-1, everyOne)
	for name, f := range map[string]cobra.CompletionFunc{
		"run": a.completeRun, "acquire": one, "show": one, "evict": a.completeEvict,
		"resize": many, "pin": many, "pause": many, "purge": many,
		"unpin":  a.completeNames(-1, func(s berthadmin.Summary) bool { return s.Pinned || s.RatesPinned }),
		"resume": a.completeNames(-1, func(s berthadmin.Summary) bool { return s.Paused }),
	} {
		find(root, name).ValidArgsFunction = f
	}
	serve := find(root, "serve")
	complete := func(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
		if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
			panic(err) // there is no such flag, which a test would have shown
		}
	}
	complete(find(root, "top"), "names", one)
	complete(serve, "names", one)
	for _, cmd := range []*cobra.Command{serve, find(root, "agent")} {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if kind, _ := pflag.UnquoteUsage(f); kind == "FILE" || kind == "PATH" && f.Name == "listen" {
				complete(cmd, f.Name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
			}
		})
	}
	complete(find(serve, "hash-password"), "role", oneOf("view", "operate"))
	complete(find(root, "run"), "on-lost", oneOf("kill", "warn"))
	evict := find(root, "evict")
	complete(evict, "label", a.completeEvictees(func(v *evictee) string { return v.Label }))
	complete(evict, "tenant", a.completeEvictees(func(v *evictee) string { return v.Tenant }))
	complete(evict, "host", a.completeEvictees(func(v *evictee) string { return v.Host }))
	complete(evict, "pid", a.completeEvictees(func(v *evictee) string { return strconv.Itoa(v.PID) }))
}

// shorten makes the flags' descriptions fit a shell's list, of which cobra shows the first line
// as it stands: without line breaks and the marks around a value's name.
func shorten(cmd *cobra.Command) {
	marks := strings.NewReplacer("`", "", "\n", " ")
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage = marks.Replace(f.Usage) })
	}
	for _, c := range cmd.Commands() {
		shorten(c)
	}
}

// oneOf offers what a flag can be.
func oneOf(all ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
}

func find(parent *cobra.Command, name string) *cobra.Command {
	i := slices.IndexFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	return parent.Commands()[i]
}

func everyOne(berthadmin.Summary) bool { return true }

// completeNames offers the names that ok accepts and args do not have, for the
// first most arguments, or for all of them.
func (a *app) completeNames(most int, ok func(berthadmin.Summary) bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.offer(func(ctx context.Context, in *berthadmin.Inspector) (words []string) {
			list, _, _ := view.List(ctx, in)
			for _, s := range list {
				if ok(s) && !slices.Contains(args, s.Name) {
					words = append(words, word(s.Name, fmt.Sprintf("%d of %d in use, %d waiting", s.InUse, s.Limit, s.Waiting)))
				}
			}
			return words
		})
	}
}

// completeRun offers names, and behind the -- programs and files.
func (a *app) completeRun(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	before := a.args[:max(len(a.args)-1, 0)] // cmd.ArgsLenAtDash knows of a dash that cobra has added
	switch {
	case !slices.Contains(before, "--"):
		return a.completeNames(1, everyOne)(cmd, args, toComplete)
	case before[len(before)-1] == "--" && toComplete != "" && !strings.Contains(toComplete, "/"):
		return programs(toComplete), cobra.ShellCompDirectiveDefault
	default:
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// programs returns what is on PATH under a name with that beginning.
func programs(prefix string) (words []string) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), prefix) || slices.Contains(words, e.Name()) || !plain(e.Name()) {
				continue
			}
			if _, err := job.Lookup(filepath.Join(dir, e.Name())); err == nil {
				words = append(words, e.Name())
			}
		}
	}
	return words
}

// completeEvict offers a name and then its leases, or with --label and its like
// names alone.
func (a *app) completeEvict(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	f := cmd.Flags()
	if len(args) == 0 || slices.ContainsFunc([]string{"label", "tenant", "host", "pid"}, f.Changed) {
		return a.completeNames(-1, everyOne)(cmd, args, toComplete)
	}
	return a.completeEvictees(func(v *evictee) string {
		if slices.Contains(args, v.ID) {
			return ""
		}
		return v.ID
	})(cmd, args[:1], toComplete)
}

// completeEvictees offers what the leases of the semaphores named so far have.
func (a *app) completeEvictees(of func(*evictee) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			args = []string{"*"}
		}
		return a.offer(func(ctx context.Context, in *berthadmin.Inspector) (words []string) {
			names, _, _ := expand(in, args)
			for _, name := range names {
				state, err := view.Show(ctx, in, name)
				if err != nil {
					continue
				}
				for _, v := range everybody(state) {
					about := fmt.Sprintf("%s %s of %s, pid %d, %s", v.role, v.Label, v.Host, v.PID, screen.Age(v.Held))
					words = append(words, word(of(&v), about))
				}
			}
			return words
		})
	}
}

// offer asks Redis for words. It offers none if Redis does not answer soon, or if this
// machine's own store is not running: completion does not start it.
func (a *app) offer(f func(context.Context, *berthadmin.Inspector) []string) ([]string, cobra.ShellCompDirective) {
	a.quiet, a.startNothing = true, true
	s, err := a.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	timeout, err := words.ParseDuration(os.Getenv("BERTH_COMPLETION_TIMEOUT"))
	if err != nil {
		timeout = completionTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	found := make(chan []string, 1)
	go func() { found <- f(ctx, s.in) }()
	select {
	case words := <-found:
		return slices.DeleteFunc(words, func(w string) bool { return w == "" }), cobra.ShellCompDirectiveNoFileComp
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// plain reports whether every shell takes text for a plain word: names and labels come
// from other people's programs, and a completed word becomes part of a command line as if
// it had been typed.
func plain(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return letter(first) && !strings.ContainsFunc(text, special)
}

func letter(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// special is what means something to some shell.
func special(r rune) bool { return !letter(r) && !strings.ContainsRune("./:@%+,-", r) }

// word is one completion with its description, "" if it cannot be offered.
func word(text, description string) string {
	if !plain(text) {
		return ""
	}
	return cobra.CompletionWithDesc(text, strings.Map(func(r rune) rune {
		if special(r) && r != ' ' {
			return '?'
		}
		return r
	}, description))
}
