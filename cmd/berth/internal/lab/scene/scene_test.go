package scene

import (
	"testing"
	"time"

	"github.com/berth-go/berth/cmd/berth/internal/lab/algo"
	"github.com/berth-go/berth/cmd/berth/internal/lab/judge"
)

func TestUsageIsReadFromInfo(t *testing.T) {
	t.Parallel()
	const stats = "# Commandstats\r\n" +
		"cmdstat_zadd:calls=12,usec=30,usec_per_call=2.50,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_client|setinfo:calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_info:calls=100,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_ping:calls=100,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=0\r\n"
	if n := parseCalls(stats); n != 14 {
		t.Errorf("%d calls, want 14: looking at the books is no use", n)
	}
	const cpu = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\nused_cpu_sys_children:9.0\r\n"
	if s := parseCPU(cpu); s != 3.75 {
		t.Errorf("%v s of CPU, want 3.75", s)
	}
}

// Chance is the seed's and the client's, and repeats itself.
func TestChanceRepeatsItself(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64, i int) time.Duration {
		return jitter((&stage{env: &Env{Seed: seed}}).chance(i), time.Hour)
	}
	if first, again := draw(1, 2), draw(1, 2); first != again {
		t.Error("the same seed and client drew different pauses")
	}
	if draw(1, 2) == draw(1, 3) || draw(1, 2) == draw(2, 2) {
		t.Error("another client, or another seed, drew the same pause")
	}
	rng := (&stage{env: &Env{}}).chance(0)
	for range 1000 {
		if d := jitter(rng, 10*time.Millisecond); d < 5*time.Millisecond || d > 15*time.Millisecond {
			t.Fatalf("a pause of %v is not from half to one and a half times 10ms", d)
		}
	}
}

func TestScenariosAndAlgorithmsAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, sc := range All() {
		if seen[sc.Key] || sc.Key == "" || sc.Title == "" || len(sc.About) < 40 || sc.limit < 1 || sc.timeout <= 0 {
			t.Errorf("scenario %+v", sc)
		}
		seen[sc.Key] = true
	}
	for _, a := range algo.All() {
		if seen[a.Key] || a.Title == "" || a.Open == nil || a.Fill == nil || a.Replies < 1 {
			t.Errorf("algorithm %+v", a)
		}
		seen[a.Key] = true
	}
}

// A paused holder's belief ends when it knew beforehand that it would, or when
// it was told, or when it released.
func TestPauseResult(t *testing.T) {
	t.Parallel()
	stopped := judge.Span{From: 20, To: 90}
	other := judge.Request{Client: 0, Granted: true, Start: 60, End: 100}
	for name, tt := range map[string]struct {
		last  report
		end   time.Duration
		worst int
	}{
		"released at the end":    {report{At: 97, Held: true}, 97, 1},
		"told when it asked":     {report{At: 92, Told: true}, 92, 1},
		"knew when it would end": {report{At: 92, Told: true, Until: 55}, 55, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{limit: 1, requests: []judge.Request{other}}
			r := s.pauseResult(report{At: 10}, tt.last, stopped, other)
			if got := r.Requests[1]; got.Start != 10 || got.End != tt.end || got.Stopped != stopped {
				t.Errorf("the holder's belief is %+v, want an end at %d", got, tt.end)
			}
			if r.Limits.WorstOver != tt.worst {
				t.Errorf("over by %d, want %d", r.Limits.WorstOver, tt.worst)
			}
		})
	}
}
