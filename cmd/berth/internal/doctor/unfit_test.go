package doctor

import (
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestServersThatDoNotRunTheScript: the finding names the reason, and the advice what to do.
func TestServersThatDoNotRunTheScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for answer, want := range map[string]struct{ found, advice string }{
		"ERR This Redis command is not allowed from script": {"does not let scripts run a command", "Use a server that does"},
		"ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array": {
			"checks the texts of scripts", "set script_check_enable to 0",
		},
		"ERR Error running script: script tried accessing undeclared key": {"wants all keys of a script declared", "allow undeclared keys"},
	} {
		t.Run(want.found, func(t *testing.T) {
			t.Parallel()
			network := redistest.NewFaults(t)
			network.Inject(redistest.Rule{
				Match: func(c redistest.Command) bool { return redistest.Declares(c) == 2 }, // the doctor's own small scripts name one key, or none
				Fault: redistest.Refuse, Error: answer, Times: -1,
			})
			f := byCheck(t, insist(t, Config{Redis: server.Client(t, network.Wrap), Prefix: "berth"}))["semaphore"]
			if f.Status != Fail || !strings.Contains(f.Found, want.found) || !strings.Contains(f.Advice, want.advice) {
				t.Errorf("%+v", f)
			}
		})
	}
}
