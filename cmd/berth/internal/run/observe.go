package run

import (
	"os"
	"slices"
	"strings"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// Observe tells what would have become of the command if the limit were enforced. If there was a
// permit it runs the command with it as Run does, except that its loss does not end the command.
// Otherwise alone is true, and the caller is to run the command without one. The error is that of a
// signal, or of a command that cannot be started.
func Observe(cfg Config) (alone bool, err error) {
	cfg.Once, cfg.WarnOnly = true, true
	lease, err := Wait(cfg)
	if err != nil {
		cfg.tell(err)
		return passes(err), err
	}
	cfg.tell(nil)
	started, err := supervise(cfg, lease)
	if started {
		return false, finish(cfg, lease, err)
	}
	abandon(lease)
	return passes(err), err
}

// passes reports whether an error only says that there is no permit.
func passes(err error) bool {
	return slices.Contains([]int{exit.NotAcquired, exit.Unavailable, exit.Lost, exit.Software}, exit.Kind(err))
}

// tell tells what was observed of a request that ended with err.
func (cfg Config) tell(err error) {
	if cfg.Quiet || err != nil && !passes(err) {
		return
	}
	text := "what would have become of it is not known"
	switch cfg.Saw() {
	case berth.ObservedGrant:
		text = "it has a permit, as it would have had"
	case berth.ObservedWait:
		text = "it would have waited"
	case berth.ObservedRefusal:
		text = "it would have been refused"
	case berth.ObservedUnknown:
	}
	if err != nil {
		text += ": " + trimmed(err)
	}
	cfg.Notices.Printf("observed only: %s", text)
}

// Inherited returns this process's environment for a command, without the variables with the Redis
// URL if the command is not to know them.
func Inherited(hideURL bool) []string {
	all := os.Environ()
	if hideURL {
		all = slices.DeleteFunc(all, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return name == URLVariable || name == URLFileVariable || name == SharedURLVariable
		})
	}
	return all
}
