package berthwatch

import (
	"testing"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestBusyProcessLooksAsOften as another: what a sample costs is the server's time, however long
// this process takes for it.
func TestBusyProcessLooksAsOften(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 101, nil)
		m.sample.Store(int64(2 * time.Millisecond))
		m.busy.Store(int64(700 * time.Millisecond))
		lookAt(e, s, "n1", 15*time.Second)
		before := m.samples.Load()
		v, d := lookAt(e, s, "n1", 30*time.Second)
		if v.Cost != 2*time.Millisecond*2 || v.Pace != time.Second {
			t.Errorf("cost %v, pace %v", v.Cost, v.Pace)
		}
		// A list of two calls and a detail of one take 2.1 seconds.
		if n := m.samples.Load() - before; n < 35 || time.Since(v.At) > 3*time.Second || time.Since(d.At) > 3*time.Second {
			t.Errorf("%d calls in half a minute; the list is %v old, the detail %v", n, time.Since(v.At), time.Since(d.At))
		}
	})
}

// TestOneSlowSampleBlindsNothing: neither the first, nor one in which the server stood still.
func TestOneSlowSampleBlindsNothing(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 50, nil)
		for _, at := range []string{"the first", "another"} {
			m.sample.Store(int64(4 * time.Second))
			for end := m.samples.Load() + 1; m.samples.Load() < end; {
				lookFor(e, s, 250*time.Millisecond)
			}
			m.sample.Store(int64(time.Millisecond))
			e.Pass(5 * time.Second)
			v := lookFor(e, s, 6*time.Second)
			if age := time.Since(v.At); age > 1500*time.Millisecond || v.Pace != time.Second {
				t.Errorf("after %s: %v old, pace %v", at, age, v.Pace)
			}
		}
		// In detail, too.
		lookAt(e, s, "n1", 5*time.Second)
		m.sample.Store(int64(4 * time.Second))
		for end := m.samples.Load() + 2; m.samples.Load() < end; {
			lookAt(e, s, "n1", 250*time.Millisecond)
		}
		m.sample.Store(int64(time.Millisecond))
		if _, d := lookAt(e, s, "n1", 20*time.Second); time.Since(d.At) > 2*time.Second {
			t.Errorf("the detail is %v old", time.Since(d.At))
		}
	})
}

// TestServerThatDoesNotTell its time, as a Redis Cluster: the cost is what the calls took, less
// the network, and never more than any server takes.
func TestServerThatDoesNotTell(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 101, nil)
		m.mute.Store(true)
		m.sample.Store(int64(15 * time.Millisecond))
		if v := lookFor(e, s, 20*time.Second); v.Cost != 30*time.Millisecond || v.Pace != 1500*time.Millisecond {
			t.Errorf("cost %v, pace %v", v.Cost, v.Pace)
		}
		m.sample.Store(int64(time.Second))
		if v := lookFor(e, s, 20*time.Second); v.Cost != 40*time.Millisecond || v.Pace != 2*time.Second {
			t.Errorf("when all takes long: cost %v, pace %v", v.Cost, v.Pace)
		}
		m.mute.Store(false)
		if v := lookFor(e, s, 3*time.Minute); v.Cost != 2*time.Second {
			t.Errorf("when it tells: cost %v", v.Cost)
		}
	})
}

// TestGauge: where the server does not tell, one slow round trip makes nothing look cheaper; and when
// it tells again, that costs no more requests than before.
func TestGauge(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		_, m := start(e, 1, nil)
		g := newGauge(e.Inspector.Inspector)
		const sample = 15 * time.Millisecond
		m.sample.Store(int64(sample))
		read := func(in *berthadmin.Inspector) (trips int, err error) {
			m.busy.Store(0) // what went before was slow
			for _, err = range in.Sample(e.Ctx, []string{"n0"}, berthadmin.SampleOptions{}) {
			}
			return 1, err
		}
		measure := func(want time.Duration) (commands int64) {
			e.Helper()
			before := m.commands.Load()
			if got, err := g.cost(e.Ctx, read); got != want || err != nil {
				e.Errorf("%v, %v, want %v", got, err, want)
			}
			return m.commands.Load() - before
		}
		measure(sample)
		usual := measure(sample)
		m.mute.Store(true)
		measure(mostTrip) // with the network
		m.busy.Store(int64(time.Second))
		measure(sample)
		m.mute.Store(false)
		measure(sample)
		if n := measure(sample); n != usual {
			e.Errorf("when it tells again, %d commands, want %d", n, usual)
		}
	})
}

// TestIdleCost of a view that is looked at all the time: no more commands than names, and three.
func TestIdleCost(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		for _, c := range []struct {
			names int
			most  int64 // in a minute
		}{{0, 3 * 60}, {6, 9 * 60}} {
			s, m := start(e, c.names, nil)
			lookFor(e, s, 10*time.Second)
			before := m.commands.Load()
			lookFor(e, s, time.Minute)
			if n := m.commands.Load() - before; n > c.most {
				t.Errorf("%d commands in a minute for %d names, want %d at most", n, c.names, c.most)
			}
			e.Pass(3 * idle)
		}
	})
}
