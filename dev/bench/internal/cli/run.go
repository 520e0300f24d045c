package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/redisd"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/testkit/redisserver"
)

// run measures. It interleaves short slices of measurement, so that all contestants are measured
// under the same conditions.
type run struct {
	*options
	env      *trial.Env
	stop     func() // stops the server
	rep      *result.Report
	stderr   io.Writer
	progress *measure.Progress

	began       time.Time
	done, ahead time.Duration // of what was planned
}

// begin starts a run, whose report has no figures yet.
func (o *options) begin(ctx context.Context, stderr io.Writer) (*run, error) {
	url, stop, err := o.redis(ctx)
	if err != nil {
		return nil, err
	}
	rdb := redisd.Client(url)
	rep := &result.Report{Command: o.command, At: time.Now(), Berth: revision(ctx), Scenarios: o.scenarios, Scale: o.scale}
	o.describe(ctx, rep, measure.Version(ctx, rdb))
	return &run{
		options: o, stop: stop, rep: rep, stderr: stderr, progress: measure.NewProgress("bench", stderr),
		env: &trial.Env{URL: url, Prefix: measure.NewPrefix("berth-bench-"), Redis: rdb, Scale: o.scale},
	}, nil
}

// redis returns the URL of the Redis to measure on, and a function that stops it.
func (o *options) redis(ctx context.Context) (url string, stop func(), err error) {
	if o.url != "" {
		return o.url, func() {}, redisd.Ping(ctx, o.url)
	}
	s, err := redisserver.Start(redisserver.Config{TCP: true}) // TCP is what most programs use
	if err != nil {
		return "", nil, measure.Errorf(measure.Unavailable, "a server of the benchmarks' own, in place of --redis: %w", err)
	}
	return "redis://" + s.Addr(), s.Close, nil
}

// end removes the run's keys, also after an interruption. The contestants are closed by then, so
// none of them makes new keys.
func (r *run) end(ctx context.Context) error {
	defer r.stop()
	defer r.env.Redis.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leeway)
	defer cancel()
	if _, err := redisd.Clean(ctx, r.env.Redis, r.env.Prefix); err != nil {
		return measure.Errorf(measure.Unavailable, "keys with %s in their names could not be removed: %w", r.env.Prefix, err)
	}
	return nil
}

// wish selects contestants in cases.
type wish func(*trial.Trial, trial.Case, *peer.Peer) bool

// measure adds the figures of the scenarios to the report. If it fails, the report is partial and
// says so.
func (r *run) measure(ctx context.Context, scenarios []*trial.Trial, want wish) error {
	r.rep.Peers, r.rep.Missing = nil, nil
	for _, p := range r.peers {
		if why := p.Missing(); why != "" {
			r.rep.Missing = append(r.rep.Missing, p.Title+": "+why)
			continue
		}
		r.rep.Peers = append(r.rep.Peers, p)
	}
	random := rand.New(rand.NewPCG(r.seed, r.seed)) //nolint:gosec // an order, not a secret
	r.began, r.done, r.ahead = time.Now(), 0, 0
	var err error
	for _, g := range r.plan(scenarios, want) {
		if err = r.group(ctx, g, random); err != nil {
			break
		}
	}
	r.progress.Done()
	r.rep.Took += time.Since(r.began)
	switch {
	case ctx.Err() != nil && err != nil:
		r.rep.Partial = "it was interrupted"
	case err != nil:
		r.rep.Partial = err.Error()
		err = measure.Errorf(measure.Unavailable, "%w", err)
	}
	return err
}

// group are the contestants, each in a case of a scenario, that are open at the same time.
type group struct {
	*trial.Trial
	turns   int // of each entry
	entries []*entry
}

// entry is a contestant in a case. It is closed if it has failed.
type entry struct {
	caze trial.Case
	peer *peer.Peer
	*trial.Entrant
}

// plan returns the groups of the scenarios with the contestants that are wanted.
func (r *run) plan(scenarios []*trial.Trial, want wish) (groups []group) {
	for _, s := range scenarios {
		turns := r.rounds * s.Slices
		if s.Most > 0 {
			turns = min(r.rounds, s.Most) * s.Slices
		}
		var entries []*entry
		for _, c := range s.Cases(r.env.Scale) {
			for _, p := range r.rep.Peers {
				if s.Takes(p, c) && want(s, c, p) {
					entries = append(entries, &entry{caze: c, peer: p})
				}
			}
			if !s.Together {
				groups = append(groups, group{s, turns, entries})
				entries = nil
			}
		}
		if s.Together {
			groups = append(groups, group{s, turns, entries})
		}
	}
	for _, g := range groups {
		r.ahead += time.Duration(len(g.entries)*g.turns) * g.Length(r.env.Scale)
	}
	return groups
}

// group measures a group. A contestant that fails is left out from then on. Only the end of ctx, or
// a server that does not answer, is an error.
func (r *run) group(ctx context.Context, g group, random *rand.Rand) error {
	defer func() {
		for _, e := range g.entries {
			if e.Entrant != nil {
				e.Close()
			}
		}
	}()
	for _, e := range g.entries {
		r.tell(g, e, "setting up")
		var err error
		if e.Entrant, err = g.Open(ctx, r.env, e.caze, e.peer); err != nil {
			if err := r.skip(ctx, g, e, err); err != nil {
				return err
			}
		}
	}
	for round := range g.turns {
		random.Shuffle(len(g.entries), func(i, j int) { g.entries[i], g.entries[j] = g.entries[j], g.entries[i] })
		for _, e := range g.entries {
			if err := r.slice(ctx, g, e, fmt.Sprintf("round %d of %d", round+1, g.turns)); err != nil {
				return err
			}
		}
	}
	return nil
}

// slice measures one contestant once.
func (r *run) slice(ctx context.Context, g group, e *entry, round string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.done += g.Length(r.env.Scale)
	if e.Entrant == nil {
		return nil
	}
	r.tell(g, e, round)
	runtime.GC() // so that no contestant collects another's garbage
	figures, err := e.Slice(ctx)
	if err != nil {
		e.Close()
		e.Entrant = nil
		return r.skip(ctx, g, e, err)
	}
	if ctx.Err() != nil {
		return ctx.Err() // the slice may have been cut short
	}
	r.rep.Add(g.Key, e.caze.Key, e.peer.Key, figures)
	return nil
}

// skip records why a contestant failed. It returns an error if the run cannot go on.
func (r *run) skip(ctx context.Context, g group, e *entry, why error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.rep.Missing = append(r.rep.Missing, fmt.Sprintf("%s %s, %s: %v", g.Key, e.caze.Key, e.peer.Title, why))
	if err := r.env.Redis.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis has gone away: %w", err)
	}
	return nil
}

// tell shows what comes next, and about how much of the run is left.
func (r *run) tell(g group, e *entry, what string) {
	part := g.Key + " " + e.caze.Key
	line := fmt.Sprintf("%s, %s: %s", part, what, e.peer.Title)
	if 0 < r.done && r.done < r.ahead {
		left := time.Duration(float64(r.ahead-r.done) * float64(time.Since(r.began)) / float64(r.done))
		line += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	r.progress.Step(part, line)
}
