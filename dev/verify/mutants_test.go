package verify

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/mutants"
	"github.com/berth-go/berth/dev/verify/storm"
)

// mostStorms is how many storms a mutant may survive. A bug that needs luck to
// be seen needs several.
const mostStorms = 12

// TestMutants plants one bug after the other: what cannot see a bug does not show
// that there is none. The library as it is, built in the same way, must pass.
func TestMutants(t *testing.T) {
	if !*planted {
		t.Skip("builds berth once for each planted bug: run it with -mutants, or make verify")
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		run(t, storm.Order{Scenario: storm.Clients, Program: built(t, mutants.Mutant{})})
	})
	for _, m := range mutants.All {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if m.Test != "" {
				fails(t, m)
			} else {
				hunt(t, m)
			}
		})
	}
}

// fails runs the test of a mutant that is not for a storm.
func fails(t *testing.T, m mutants.Mutant) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	says, ok, err := m.Fails(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf("%s: %s passes, or says nothing: %s", m.What, m.Test, says)
		return
	}
	t.Logf("caught: %s; %s fails: %.400s", m.What, m.Test, says)
}

// hunt has storms strike a mutant until one of the promises that it should break
// is seen to be broken.
func hunt(t *testing.T, m mutants.Mutant) {
	program := built(t, m)
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1_000_000)
	}
	start := time.Now()
	for n := range uint64(mostStorms) {
		res := storm.Run(t, storm.Order{
			Scenario: scenario(m.Scenario), Seed: first + n, Lasts: *lasts, Workers: *procs, Program: program, Out: t.TempDir(),
		})
		seen := res.Promises()
		if slices.ContainsFunc(m.Caught, func(p string) bool { return slices.Contains(seen, p) }) {
			t.Logf("caught: %s; seed %d, storm %d, after %v: %d violations of %v, the first: %.200s",
				m.What, first+n, n+1, time.Since(start).Round(time.Second), len(res.Violations), seen, res.Violations[0])
			return
		}
		t.Logf("seed %d: not caught; %s", first+n, res.Summary())
		for _, other := range res.Violations {
			t.Log("and not one of ", m.Caught, ": ", other)
		}
	}
	t.Errorf("%s: survived %d storms of %v", m.What, mostStorms, *lasts)
}

func scenario(name string) storm.Scenario {
	for _, s := range []storm.Scenario{storm.Clients, storm.Flush, storm.Half} {
		if s.Name == name {
			return s
		}
	}
	panic("no scenario " + name)
}

func built(t *testing.T, m mutants.Mutant) string {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program, err := m.Build(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return program
}
