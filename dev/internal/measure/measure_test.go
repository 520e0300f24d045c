package measure

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A server without the main thread's CPU time, and a command with a subcommand.
const info = "# Memory\r\nused_memory:1000\r\n\r\n# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:2.25\r\n" +
	"# Commandstats\r\ncmdstat_evalsha:calls=10,usec=50,usec_per_call=5.00,rejected_calls=0\r\n" +
	"cmdstat_zadd:calls=10,usec=20,usec_per_call=2.00\r\ncmdstat_exec:calls=1,usec=30\r\ncmdstat_client|setinfo:calls=2,usec=4\r\n"

func TestUsageIsWhatHappenedSince(t *testing.T) {
	t.Parallel()
	before := parse(info)
	after := parse(strings.NewReplacer("calls=10,usec=50", "calls=14,usec=90", "used_cpu_user:2.25", "used_cpu_user:3.25",
		"used_memory:1000", "used_memory:1500").Replace(info) + "cmdstat_info:calls=9,usec=999\r\n")
	used := after.Since(before)
	if used.CPU != 1 || used.Memory != 500 || len(used.Commands) != 1 {
		t.Errorf("%+v", used)
	}
	if got := used.Sent([]string{"evalsha", "eval"}); got != (Calls{4, 40}) {
		t.Errorf("evalsha: %+v", got)
	}
	// Commands in a transaction are counted by themselves, and EXEC once more.
	if got := before.Sent(nil); got != (Calls{23, 74}) {
		t.Errorf("all: %+v", got)
	}
}

func TestParseErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "hunter2", "redis://u:hunter2@h:port", "redis://u:%zzhunter2@h", "ftp://hunter2@h", "redis://u:hunter2@h/notadb"} {
		if _, err := ParseURL(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestCommandLineHasTheSeedAndNoSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"--seed 7 --redis redis://u:hunter2@h --out f --only a,b -quick", "go run ./x --only=a,b --quick=true --redis URL --seed=7"},
		{"--only a", "go run ./x --only=a --seed="},
	} {
		fs := flag.NewFlagSet("x", flag.ContinueOnError)
		seed := fs.Uint64("seed", 0, "")
		fs.Bool("quick", false, "")
		for _, name := range []string{"redis", "out", "only"} {
			fs.String(name, "", "")
		}
		got, err := ParseFlags("go run ./x", fs, strings.Fields(tt.args))
		if err != nil || !strings.HasPrefix(got, tt.want) || !strings.HasSuffix(got, fmt.Sprintf("--seed=%d", *seed)) {
			t.Errorf("%s: %q, seed %d, %v", tt.args, got, *seed, err)
		}
	}
}

func TestChooseKeepsTheOrder(t *testing.T) {
	t.Parallel()
	all := []string{"clocks-1s", "clocks-1h", "crash", "pause"}
	same := func(s string) string { return s }
	for words, want := range map[string]string{
		"": "clocks-1s clocks-1h crash pause", "pause,crash": "crash pause", "clocks": "clocks-1s clocks-1h", "clocks-1h": "clocks-1h",
	} {
		if got, err := Choose("word", words, all, same); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v", words, got, err)
		}
	}
	if _, err := Choose("word", "crash,pau", all, same); err == nil || Code(t.Context(), err) != Usage || !strings.Contains(err.Error(), `"pau"`) {
		t.Errorf("error %v", err)
	}
}

func TestCodeIsTheSignalsFirst(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, tt := range []struct {
		err  error
		want int
	}{{nil, OK}, {io.EOF, Failure}, {fmt.Errorf("in: %w", Errorf(Output, "full")), Output}} {
		if got := Code(ctx, tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
	cancel(stopped(syscall.SIGTERM))
	if got := Code(ctx, Errorf(Output, "full")); got != 143 {
		t.Errorf("after SIGTERM: %d, want 143", got)
	}
}

func TestProgressInAFileIsALineForEachPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		p := NewProgress("x", &b)
		p.Step("one", "a")
		p.Step("one", "b")
		p.Step("two", "c")
		<-time.After(2 * time.Second)
		p.Step("two", "d")
		p.Done()
		if b.String() != "x: a\nx: c\nx: d\n" {
			t.Errorf("%q", b.String())
		}
	})
}

func TestWrapBreaksBetweenWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", "> "}, {"µµµµ bb  cc", "> µµµµ bb\n> cc"}, {"averylongword b", "> averylongword\n> b"},
	} {
		if got := Wrap(tt.text, 7, "> "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}
