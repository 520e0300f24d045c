// Package scene has the scenarios of the lab. Each puts a semaphore into one kind of
// trouble and records what its clients believed.
package scene

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth/dev/lab/internal/algo"
)

// Scenario is one kind of trouble.
type Scenario struct {
	Key   string // for the command line and for machines
	Title string
	About string // what is done, for people who read the results
	run   func(ctx context.Context, s *stage) (*Result, error)
	limit int
	// timeout is the time after which a permit that is not renewed is lost.
	timeout time.Duration
}

// The chapter's default time-out, for scenarios in which it should not matter.
const longTimeout = 10 * time.Second

// All returns the scenarios in the order of the report.
func All() []Scenario {
	return []Scenario{
		clocks("clocks-10ms", 10*time.Millisecond, "10 ms"),
		clocks("clocks-100ms", 100*time.Millisecond, "100 ms"),
		clocks("clocks-1s", time.Second, "1 s"),
		clocks("clocks-1h", time.Hour, "1 h"),
		contention(), crashes(), paused(), interrupted(), fairness(), growth(),
	}
}

// Run runs one algorithm in the scenario. It removes its keys; if it cannot, the error
// names those that remain.
func (sc Scenario) Run(ctx context.Context, env *Env, alg algo.Algorithm) (r *Result, err error) {
	s := newStage(env, sc.Key, alg, sc.limit, sc.timeout)
	if r, err = sc.run(ctx, s); err != nil {
		err = fmt.Errorf("%s, %s: %w", sc.Key, alg.Title, err)
	}
	if err = errors.Join(err, s.close(ctx)); err != nil {
		return nil, err
	}
	return r, nil
}

// clocks makes the clocks of half of the clients slow by off.
func clocks(key string, off time.Duration, words string) Scenario {
	c := crowd{clients: 8, hold: 15 * time.Millisecond, off: -off}
	return Scenario{
		Key: key, Title: "Clocks " + words + " apart", limit: 3, timeout: longTimeout,
		About: fmt.Sprintf("8 clients want 3 permits, for about 15 ms each, again and again. "+
			"The clocks of 4 of them are %s slow. Permits time out after 10 s.", words),
		run: c.run,
	}
}

// contention has many clients and few permits.
func contention() Scenario {
	c := crowd{clients: 64, hold: 10 * time.Millisecond}
	return Scenario{
		Key: "contention", Title: "Contention", limit: 5, timeout: longTimeout,
		About: "64 clients, each with connections of its own, want 5 permits, for about 10 ms each, again and again. " +
			"No algorithm can give more than 500 permits per second.",
		run: c.run,
	}
}

func fairness() Scenario {
	q := queue{requests: 30, gap: 6 * time.Millisecond, hold: 30 * time.Millisecond}
	return Scenario{
		Key: "fairness", Title: "Fairness", limit: 3, timeout: longTimeout,
		About: "30 clients come one after the other, 6 ms apart, and want one of 3 permits once, for 30 ms: " +
			"a queue builds up and drains. Then again from the beginning.",
		run: q.run,
	}
}
