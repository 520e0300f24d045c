package berthwatch

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-go/berth"
)

// Action is something that an operator does to a semaphore, in the words of the command
// line.
type Action struct {
	Verb  string // pause, resume, pin, unpin, resize, evict or purge
	Name  string
	Limit int    // pin, resize
	ID    string // evict: of the lease or request
	Who   string // evict: whose that is
	Force bool   // evict

	Reason string
}

// Do does it, as in, an Inspector that Because returned, is told to record it.
func (a Action) Do(ctx context.Context, in *berth.Inspector) error {
	switch a.Verb {
	case "pause":
		return in.Pause(ctx, a.Name)
	case "resume":
		return in.Resume(ctx, a.Name)
	case "pin":
		return in.Pin(ctx, a.Name, a.Limit)
	case "unpin":
		return in.Unpin(ctx, a.Name)
	case "resize":
		return in.Resize(ctx, a.Name, a.Limit)
	case "purge":
		return in.Purge(ctx, a.Name)
	case "evict":
		if a.Force {
			return in.ForceEvict(ctx, a.Name, a.ID)
		}
		return in.Evict(ctx, a.Name, a.ID)
	}
	return &berth.InvalidError{What: "verb", Reason: fmt.Sprintf("%.20q is none", a.Verb)}
}

// Args are the arguments of the berth command that does the same.
func (a Action) Args() []string {
	args := []string{a.Verb}
	if a.Force {
		args = append(args, "--force")
	}
	if a.Reason != "" {
		args = append(args, "--reason", a.Reason)
	}
	if strings.HasPrefix(a.Name, "-") {
		args = append(args, "--")
	}
	args = append(args, a.Name)
	switch a.Verb {
	case "pin", "resize":
		args = append(args, strconv.Itoa(a.Limit))
	case "evict":
		args = append(args, a.ID)
	}
	return args
}

// shellSafe is what no shell takes for anything but a word.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// Quote joins words for a shell.
func Quote(words []string) string {
	var out []string
	for _, w := range words {
		if !shellSafe.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// WantsName tells whether the name is to be typed before, because what it does to people
// cannot be undone.
func (a Action) WantsName() bool { return a.Force || a.Verb == "purge" }

// Effect says in sentences what it does to people.
func (a Action) Effect() []string {
	switch {
	case a.Verb == "pause":
		return []string{"Nothing is granted any more until \"berth resume\". Who holds, keeps; the queue stays."}
	case a.Verb == "resume":
		return []string{"Permits are granted again, at once to those who wait."}
	case a.Verb == "pin":
		return []string{"This limit wins over what programs declare, until \"berth unpin\". 0 grants nothing any more. Who holds, keeps."}
	case a.Verb == "unpin":
		return []string{"The limit that programs declare counts again."}
	case a.Verb == "resize":
		return []string{"This limit counts until the next program declares its own. Who holds, keeps."}
	case a.Verb == "purge":
		return []string{
			"Everything is forgotten: leases, queue, pin and pause.",
			"Holders hear of it at the latest when they renew: until then more than the limit may be at work.",
		}
	case a.Force:
		return []string{
			"It goes to: " + a.Who,
			"Its permits are free AT ONCE, whether or not it has stopped: for a time more than the limit may be at work.",
		}
	}
	return []string{"It goes to: " + a.Who, "It is told to stop. Its permits are free when it does, or when its lease runs out."}
}
