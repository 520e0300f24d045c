package scene

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/berth-go/berth/bench/internal/peer"
)

// Run is an interleaved run of contestants in scenarios.
type Run struct {
	Env       *Env
	Scenarios []*Scenario
	Peers     []*peer.Peer
	Rounds    int
	Seed      uint64
	// Want selects cases and contestants; nil: all. Add is called after each slice, Skip for a
	// contestant that failed, and Progress before each step.
	Want     func(s *Scenario, c Case, p *peer.Peer) bool
	Add      func(s *Scenario, c Case, p *peer.Peer, figures []Figure)
	Skip     func(s *Scenario, c Case, p *peer.Peer, why error)
	Progress func(Step)

	random       *rand.Rand
	begin        time.Time
	done, ahead  time.Duration // of what was planned
	round, total int
}

// Step says what a run is about to do.
type Step struct {
	Scenario, Case, Peer string
	Round, Rounds        int
	Left                 time.Duration // estimated, of the whole run; 0: not known yet
}

// String describes the step in a line.
func (s Step) String() string {
	round, left := "setting up", ""
	if s.Round > 0 {
		round = fmt.Sprintf("round %d of %d", s.Round, s.Rounds)
	}
	if s.Left > 0 {
		left = ", about " + s.Left.Round(time.Second).String() + " left"
	}
	return fmt.Sprintf("%s %s, %s: %s%s", s.Scenario, s.Case, round, s.Peer, left)
}

// Do runs all scenarios. A contestant that fails is left out of the case from then on.
// Only the end of ctx, or a server that does not answer, ends the run.
func (r *Run) Do(ctx context.Context) error {
	r.random = rand.New(rand.NewPCG(r.Seed, r.Seed)) //nolint:gosec // an order, not a secret
	r.begin = time.Now()
	for _, s := range r.Scenarios {
		r.ahead += r.length(s)
	}
	for _, s := range r.Scenarios {
		if err := r.scenario(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// entry is a contestant in a case.
type entry struct {
	s *Scenario
	c Case
	p *peer.Peer
	*Entrant
}

// groups returns the entries of a scenario, grouped by which are open at the same time.
func (r *Run) groups(s *Scenario) (groups [][]*entry) {
	var all []*entry
	for _, c := range s.Cases(r.Env.Scale) {
		var group []*entry
		for _, p := range r.Peers {
			if s.Takes(p, c) && (r.Want == nil || r.Want(s, c, p)) {
				group = append(group, &entry{s: s, c: c, p: p})
			}
		}
		all = append(all, group...)
		groups = append(groups, group)
	}
	if s.Together {
		return [][]*entry{all}
	}
	return groups
}

func (r *Run) slices(s *Scenario) int {
	rounds := r.Rounds
	if s.Most > 0 {
		rounds = min(rounds, s.Most)
	}
	return rounds * s.Slices
}

func (r *Run) length(s *Scenario) (d time.Duration) {
	for _, g := range r.groups(s) {
		d += time.Duration(len(g)*r.slices(s)) * s.Length(r.Env.Scale)
	}
	return d
}

func (r *Run) scenario(ctx context.Context, s *Scenario) error {
	for _, group := range r.groups(s) {
		if err := r.group(ctx, s, group); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) group(ctx context.Context, s *Scenario, group []*entry) error {
	defer func() {
		for _, e := range group {
			if e.Entrant != nil {
				e.Close()
			}
		}
	}()
	r.total = r.slices(s)
	for _, e := range group {
		r.round = 0
		r.tell(e)
		entrant, err := s.Open(ctx, r.Env, e.c, e.p)
		if err != nil {
			if err := r.skip(ctx, e, err); err != nil {
				return err
			}
			continue
		}
		e.Entrant = entrant
	}
	for r.round = 1; r.round <= r.total; r.round++ {
		r.random.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
		for _, e := range group {
			if err := r.slice(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// slice measures one contestant once.
func (r *Run) slice(ctx context.Context, e *entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	planned := e.s.Length(r.Env.Scale)
	r.done += planned
	if e.Entrant == nil {
		return nil
	}
	r.tell(e)
	runtime.GC() // so that no contestant collects another's garbage
	figures, err := e.Slice(ctx)
	if err != nil {
		e.Close()
		e.Entrant = nil
		return r.skip(ctx, e, err)
	}
	if ctx.Err() != nil {
		return ctx.Err() // the slice may have been cut short
	}
	r.Add(e.s, e.c, e.p, figures)
	return nil
}

// skip records that a contestant failed. It returns an error if the run cannot go on.
func (r *Run) skip(ctx context.Context, e *entry, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.Skip(e.s, e.c, e.p, err)
	if pinged := r.Env.Redis.Ping(ctx).Err(); pinged != nil {
		return fmt.Errorf("redis has gone away: %w", pinged)
	}
	return nil
}

func (r *Run) tell(e *entry) {
	step := Step{Scenario: e.s.Key, Case: e.c.Key, Peer: e.p.Title, Round: r.round, Rounds: r.total}
	if r.done > 0 {
		step.Left = time.Duration(float64(r.ahead-r.done) * float64(time.Since(r.begin)) / float64(r.done))
	}
	r.Progress(step)
}
