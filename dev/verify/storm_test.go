package verify

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/verify/storm"
	"github.com/berth-go/berth/dev/verify/worker"
	"github.com/berth-go/berth/internal/child"
)

var (
	lasts   = flag.Duration("storm", 4*time.Second, "how long each storm lasts")
	soak    = flag.Duration("soak", 0, "repeat the storms, with new seeds, for so long")
	seed    = flag.Uint64("seed", 0, "seed of the faults; 0: a new one")
	procs   = flag.Int("procs", 4, "client processes at a time")
	out     = flag.String("out", "", "where to keep the histories and pictures of failed runs; default: a temporary directory")
	planted = flag.Bool("mutants", false, "plant the bugs of package mutants, one after the other")
)

func TestMain(m *testing.M) {
	if os.Getenv(worker.Env) != "" {
		worker.Main()
		return
	}
	child.UsualSignals()
	flag.Parse()
	os.Exit(m.Run())
}

// TestStorm runs every scenario for a short time, or again and again with -soak.
func TestStorm(t *testing.T) {
	for end := time.Now().Add(*soak); ; {
		round(t)
		if t.Failed() || !time.Now().Before(end) {
			return
		}
	}
}

// turns bounds how many storms run at once. More of them slow each other down on few CPUs, and
// last longer: all then take twice the CPU time for the same tests.
var turns = make(chan struct{}, runtime.NumCPU()+1)

// round runs every scenario once.
func round(t *testing.T) {
	for _, s := range []storm.Scenario{
		storm.Clients, storm.Keep, storm.Memory, storm.Disk, storm.Half, storm.Everysec, storm.Forget, storm.Flush, storm.Evict, storm.Step,
	} {
		t.Run(s.Name, func(t *testing.T) {
			if *soak == 0 {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
			}
			run(t, storm.Order{Scenario: s})
		})
	}
}

// run runs one storm and fails t for what the judge finds.
func run(t *testing.T, o storm.Order) {
	o.Seed, o.Lasts, o.Workers, o.Out = *seed, *lasts, *procs, *out
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000)
	}
	res := storm.Run(t, o)
	t.Logf("seed %d: %s", o.Seed, res.Summary())
	if res.Grants == 0 {
		t.Error("nothing was granted: nothing was tested")
	}
	for i, v := range res.Violations {
		if i == 10 {
			t.Errorf("and %d more", len(res.Violations)-i)
			break
		}
		t.Error(v)
	}
	if res.Page != "" {
		name, _, _ := strings.Cut(t.Name(), "#") // of a soak's later rounds
		t.Errorf("run it again with: go test ./dev/verify -run '%s' -seed %d -storm %v -mutants=%v\nsee %s", name, o.Seed, o.Lasts, *planted, res.Page)
	}
}
