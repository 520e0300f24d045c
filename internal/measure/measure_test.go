package measure

import (
	"strings"
	"testing"
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
