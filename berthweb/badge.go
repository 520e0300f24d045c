package berthweb

import (
	"strconv"
	"strings"
)

// docs is where the pages of docs are, for links of which each names a section.
const docs = "https://github.com/berth-go/berth/blob/main/docs/"

// helps are the sections about a state.
var helps = map[string]string{
	"paused":       "runbook.md#berthpaused",
	"pinned":       "runbook.md#berthforgotten",
	"rates pinned": "runbook.md#berthforgotten",
	"frozen":       "runbook.md#berthfrozen",
	"expired":      "runbook.md#berthdeadholders",
	"flapping":     "runbook.md#berthlimitflapping",
	"damaged":      "runbook.md#berthdamaged",
	"half lost":    "runbook.md#berthdamaged",
	"newer layout": "runbook.md#berthdamaged",
	"older layout": "runbook.md#berthdamaged",
	"rate spent":   "limits.md",

	"waits for the rate": "limits.md",
	"old queue":          "runbook.md#berthqueueold",
	"slow redis":         "runbook.md#berthredisslow",
	"metrics":            "telemetry.md#metrics",
}

// help is the address of what to do about a state; "" if there is nothing to do.
func help(state string) string {
	if section := helps[kind(state)]; section != "" {
		return docs + section
	}
	return ""
}

// kind is a state without its numbers: "half lost, heals in 3s" is half lost, and "2 expired" expired.
func kind(state string) string {
	state, _, _ = strings.Cut(state, ",")
	if n, rest, ok := strings.Cut(state, " "); ok {
		if _, err := strconv.Atoi(n); err == nil {
			return rest
		}
	}
	return state
}

// badge is a word for what is unusual about a semaphore.
type badge struct {
	ID, Text string
	Look     string
	Help     string // where it says what to do; "": nowhere
}

// badges are those of a semaphore, or of a group.
func badges(name string, states []string) (all []badge) {
	for _, state := range states {
		all = append(all, badge{"badge-" + kind(state) + "-" + name, state, look(kind(state)), help(state)})
	}
	return all
}

func look(kind string) string {
	switch kind {
	case "idle":
		return "dim"
	case "paused", "pinned", "rates pinned", "flapping", "rate spent", "waits for the rate":
		return "warn"
	}
	return "bad"
}
