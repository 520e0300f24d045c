package berthwatch

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/words"
)

// Action is a change that an operator makes to a semaphore, in the words of the command
// line.
type Action struct {
	Verb  string // pause, resume, pin, unpin, resize, evict or purge
	Name  string
	Limit int           // pin, resize without Rates
	Rates string        // pin, resize: rates instead of the limit, as ParseRate reads them, with spaces between
	Rated bool          // unpin: the rates, and not the limit
	For   time.Duration // pause: how long; 0: until resumed
	ID    string        // evict: of the lease or request
	Who   string        // evict: who holds or waits with it
	Force bool          // evict

	Reason string
}

// DoInUse is Do, but neither pauses nor pins a semaphore that is not in use, because a mistyped
// name would create one: the error is berthadmin.ErrNotFound then.
func (a Action) DoInUse(ctx context.Context, in *berthadmin.Inspector) error {
	if a.Verb == "pause" || a.Verb == "pin" {
		for _, err := range in.Sample(ctx, []string{a.Name}, berthadmin.SampleOptions{}) {
			if err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.Do(ctx, in)
}

// Do makes the change through in. To record it, pass an Inspector that Because returned.
func (a Action) Do(ctx context.Context, in *berthadmin.Inspector) error {
	switch a.Verb {
	case "pause":
		if a.For > 0 {
			return in.PauseFor(ctx, a.Name, a.For)
		}
		return in.Pause(ctx, a.Name)
	case "resume":
		return in.Resume(ctx, a.Name)
	case "pin":
		if a.Rates != "" {
			return a.setRates(ctx, in.PinRates)
		}
		return in.Pin(ctx, a.Name, a.Limit)
	case "unpin":
		if a.Rated {
			return in.UnpinRates(ctx, a.Name)
		}
		return in.Unpin(ctx, a.Name)
	case "resize":
		if a.Rates != "" {
			return a.setRates(ctx, in.SetRates)
		}
		return in.Resize(ctx, a.Name, a.Limit)
	case "purge":
		return in.Purge(ctx, a.Name)
	case "evict":
		if a.Force {
			return in.ForceEvict(ctx, a.Name, a.ID)
		}
		return in.Evict(ctx, a.Name, a.ID)
	}
	return &berth.InvalidError{What: "verb", Reason: fmt.Sprintf("%.20q is not a verb", a.Verb)}
}

// setRates sets the rates of each unit. If it fails, those of the units before stand.
func (a Action) setRates(ctx context.Context, set func(ctx context.Context, name, unit string, set ...berthadmin.Rate) (before, after []berthadmin.Rate, err error)) error {
	units, rates, err := byUnit(a.Rates)
	if err != nil {
		return err
	}
	for _, unit := range units {
		if _, _, err := set(ctx, a.Name, unit, rates[unit]...); err != nil {
			return err
		}
	}
	return nil
}

// Args returns the arguments of the berth command that makes the same change.
func (a Action) Args() []string {
	args := []string{a.Verb}
	if a.Force {
		args = append(args, "--force")
	}
	if a.For > 0 {
		args = append(args, "--for", words.Duration(a.For))
	}
	for rate := range strings.FieldsSeq(a.Rates) {
		args = append(args, "--rate", rate)
	}
	if a.Rated {
		args = append(args, "--rate")
	}
	if a.Reason != "" {
		args = append(args, "--reason", a.Reason)
	}
	if strings.HasPrefix(a.Name, "-") {
		args = append(args, "--")
	}
	switch {
	case a.Rates != "", a.Verb == "pause", a.Verb == "resume", a.Verb == "unpin":
		args = append(args, literal(a.Name))
	case a.Verb == "pin", a.Verb == "resize":
		args = append(args, literal(a.Name), limitArg(a.Limit))
	case a.Verb == "evict":
		args = append(args, a.Name, a.ID)
	default: // purge, and show, take names
		args = append(args, a.Name)
	}
	return args
}

// limitArg is a limit as the command line reads it.
func limitArg(limit int) string {
	if limit == berth.NoLimit {
		return "none"
	}
	return strconv.Itoa(limit)
}

// patternSpecial escapes what means something in a pattern. A ] alone means nothing.
var patternSpecial = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// literal returns the argument that stands for one name where the command line takes
// patterns. Unescaped, jobs[1] would be the pattern of another semaphore, jobs1. An argument
// without *, ? and [ is not a pattern, and a backslash in it is itself.
func literal(name string) string {
	if strings.ContainsAny(name, "*?[") {
		return patternSpecial.Replace(name)
	}
	return name
}

// shellSafe matches what every shell takes for a plain word.
var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// Quote joins words into a command line for a shell.
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

// ParseFor reads how long a pause is to last, as the command line does: 30s, 10m, or a plain number
// of seconds. "" is 0: until resumed. The error is berth.ErrInvalid.
func ParseFor(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	d, err := words.ParseDuration(text)
	switch {
	case err != nil:
		return 0, &berth.InvalidError{What: "pause", Reason: fmt.Sprintf("%.20q is %v", text, err)}
	case d < berth.MinTTL || d > berth.MaxTTL:
		return 0, &berth.InvalidError{What: "pause", Reason: fmt.Sprintf("%v is outside %v to %v", d, berth.MinTTL, words.Duration(berth.MaxTTL))}
	}
	return d, nil
}

// WantsName reports whether the operator must type the semaphore's name to confirm, because
// the effect on holders cannot be undone.
func (a Action) WantsName() bool { return a.Force || a.Verb == "purge" }

// Effect describes, in sentences, what the action does to holders and waiters.
func (a Action) Effect() []string {
	switch {
	case a.Verb == "pause" && a.For > 0:
		return []string{"No more permits are granted for " + words.Duration(a.For) + ", or until \"berth resume\". A longer pause is not shortened. Holders keep theirs, and waiters their places."}
	case a.Verb == "pause":
		return []string{"No more permits are granted until \"berth resume\". Holders keep theirs, and waiters their places."}
	case a.Verb == "resume":
		return []string{"Permits are granted again, at once to those who wait."}
	case a.Verb == "pin" && a.Rates != "":
		return []string{"These rates take the place of those of their units, and all are pinned: whatever programs declare, until \"berth unpin --rate\"."}
	case a.Verb == "pin":
		return []string{"This limit overrides what programs declare, until \"berth unpin\". With 0 nothing is granted. Holders keep their permits."}
	case a.Verb == "unpin" && a.Rated:
		return []string{"The next program that declares rates replaces them. A pinned limit stays pinned."}
	case a.Verb == "unpin":
		return []string{"The limit that programs declare is in force again. Pinned rates stay pinned."}
	case a.Rates != "":
		return []string{"These rates replace those of their units, until the next program declares rates. What was granted before counts for at most one new window."}
	case a.Verb == "resize":
		return []string{"This limit is in force until the next program declares another. Holders keep their permits."}
	case a.Verb == "purge":
		return []string{
			"Everything is forgotten: leases, queue, pins and pause.",
			"Holders learn of it when they renew, at the latest: until then the limit can be exceeded.",
		}
	case a.Force:
		return []string{
			"It goes to: " + a.Who,
			"Its permits are free AT ONCE, whether or not it has stopped: for a time the limit can be exceeded.",
		}
	}
	return []string{"It goes to: " + a.Who, "It is told to stop. Its permits are free when it does, or when its lease expires."}
}
