package redisd

import (
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := Start()
	if err == nil || !strings.Contains(err.Error(), "redis-server is not on PATH: install it with") {
		t.Errorf("error %v", err)
	}
}

func TestOwnServerAnswersAndKeepsNothing(t *testing.T) {
	t.Parallel()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	rdb := Client(s.URL())
	defer rdb.Close()
	for name, want := range map[string]string{"save": "", "appendonly": "no"} {
		if got := rdb.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if v := Version(t.Context(), rdb); v == "unknown" {
		t.Error("it does not tell its version")
	}
	s.Close()
	if err := Ping(t.Context(), s.URL()); err == nil {
		t.Error("it answers after its end")
	}
}

func TestCleanRemovesThePrefixAndNothingElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTCP())
	url := "redis://" + s.Addr()
	rdb := Client(url)
	defer rdb.Close()
	prefix := NewPrefix()
	mine := []string{prefix + "a", "lock:" + prefix + "b", "semaphore:" + prefix}
	for _, key := range append(mine, "berth-bench", "other") {
		if err := rdb.Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Clean(t.Context(), url, prefix); err != nil || n != len(mine) {
		t.Errorf("%d keys removed, %v", n, err)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("%d keys of others are left of 2", n)
	}
}

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
		if _, err := Parse(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
	o, err := Parse("redis://u:hunter2@h:1/3")
	if err != nil || o.PoolSize != PoolSize {
		t.Errorf("%v, %+v", err, o)
	}
	if o, err := Parse("unix:///tmp/s?pool_size=20"); err != nil || o.PoolSize != 20 {
		t.Errorf("%v, %+v", err, o)
	}
}
