package cli

import (
	"errors"

	"github.com/berth-go/berth/berthadmin"
)

// outcome is what a verb made of one semaphore, for --json.
type outcome struct {
	Name    string              `json:"name"`
	Verb    string              `json:"verb"`
	Changed bool                `json:"changed"`
	Before  *berthadmin.Summary `json:"before"`            // null: it was not in use, or damaged
	After   *berthadmin.Summary `json:"after"`             // null: it is not in use
	Evicted []evicted           `json:"evicted,omitempty"` // of evict
}

// evicted is what evict made of one holder or waiter.
type evicted struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Label   string `json:"label"`
	Tenant  string `json:"tenant,omitempty"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Outcome string `json:"outcome"` // a word of eviction.outcome
}

func outcomeOf(verb, name string, before, after *berthadmin.State) outcome {
	return outcome{
		Name: name, Verb: verb, Changed: !sameSettings(before, after),
		Before: summaryOf(before), After: summaryOf(after),
	}
}

func summaryOf(s *berthadmin.State) *berthadmin.Summary {
	if s == nil {
		return nil
	}
	return &s.Summary
}

// result prints in words what became of a semaphore, or keeps it for printOutcomes.
func (a *app) result(o outcome, text string) error {
	if a.asJSON {
		a.outcomes = append(a.outcomes, o)
	}
	return a.tell(o.Name, text)
}

// printOutcomes prints what was kept. Where a verb has failed before it did anything, it prints
// nothing.
func (a *app) printOutcomes(err error) error {
	if !a.asJSON || err != nil && len(a.outcomes) == 0 {
		return err
	}
	return errors.Join(err, a.printJSON(a.outcomes))
}
