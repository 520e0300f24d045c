// Package stage runs the scenarios of the lab. Each puts a semaphore into one kind of trouble and
// records what its clients believed.
package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/scenario"
)

// All returns the scenarios in the order of the report.
func All() []scenario.Scenario {
	return []scenario.Scenario{
		scenario.Clocks("clocks-10ms", "10 ms", 10*time.Millisecond),
		scenario.Clocks("clocks-100ms", "100 ms", 100*time.Millisecond),
		scenario.Clocks("clocks-1s", "1 s", time.Second),
		scenario.Clocks("clocks-1h", "1 h", time.Hour),
		scenario.Contended(64, 10*time.Millisecond),
		scenario.Crash, scenario.Pause, scenario.Release, scenario.Fairness, scenario.Holders,
	}
}

// Run runs one algorithm in a scenario. It removes its keys; if it cannot, the error names
// those that remain.
func Run(ctx context.Context, env *Env, sc scenario.Scenario, alg algo.Algorithm) (r *Result, err error) {
	s := newStage(env, sc, alg)
	if r, err = s.run(ctx); err != nil {
		err = fmt.Errorf("%s, %s: %w", sc.Key, alg.Title, err)
	}
	if err = errors.Join(err, s.close(ctx)); err != nil {
		return nil, err
	}
	return r, nil
}

func (s *stage) run(ctx context.Context) (*Result, error) {
	switch s.Key {
	case scenario.Crash.Key:
		return s.runCrash(ctx)
	case scenario.Pause.Key:
		return s.runPause(ctx)
	case scenario.Release.Key:
		return s.runInterrupted(ctx)
	case scenario.Fairness.Key:
		return s.runQueue(ctx)
	case scenario.Holders.Key:
		return s.runGrowth(ctx)
	default:
		return s.runCrowd(ctx)
	}
}
