package classic_test

import (
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/berth-go/berth/classic"
)

// model is what all three promise as long as nothing overlaps and all clocks
// agree: a list of at most limit permits with the times of their last refresh.
type model struct {
	limit   int
	timeout time.Duration
	holders []permit
}

type permit struct {
	id string
	at time.Time
}

func (m *model) acquire(id string, now time.Time) bool {
	m.holders = slices.DeleteFunc(m.holders, func(p permit) bool { return now.Sub(p.at) >= m.timeout })
	if len(m.holders) >= m.limit {
		return false
	}
	m.holders = append(m.holders, permit{id, now})
	return true
}

func (m *model) release(id string) bool {
	n := len(m.holders)
	m.holders = slices.DeleteFunc(m.holders, func(p permit) bool { return p.id == id })
	return len(m.holders) < n
}

func (m *model) refresh(id string, now time.Time) bool {
	for i := range m.holders {
		if m.holders[i].id == id {
			m.holders[i].at = now
			return true
		}
	}
	return false
}

func TestEachBehavesLikeTheModelWhenNothingOverlaps(t *testing.T) {
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			rdb := patient(t, "tcp", m.Addr())
			rapid.Check(t, func(rt *rapid.T) {
				m.FlushAll()
				walk(t, rt, rdb, c)
			})
		})
	}
}

// walk does random steps and compares each with the model's.
func walk(t *testing.T, rt *rapid.T, rdb *redis.Client, c constructor) {
	// Half seconds are exact in a float64: the model knows no rounding.
	at := &clock{at: time.Unix(1326437039, 0)}
	m := &model{limit: rapid.IntRange(1, 4).Draw(rt, "limit"), timeout: 5 * time.Second}
	s := c(t, rdb, "sem", m.limit, classic.WithTimeout(m.timeout), classic.WithClock(at.now))
	var known []string
	rt.Repeat(map[string]func(*rapid.T){
		"time passes": func(rt *rapid.T) {
			at.advance(time.Duration(rapid.IntRange(1, 8).Draw(rt, "halves")) * time.Second / 2)
		},
		"acquire": func(rt *rapid.T) {
			id, ok, err := s.Acquire(t.Context())
			if want := m.acquire(id, at.now()); ok != want || err != nil {
				rt.Fatalf("Acquire: %v, %v, the model says %v", ok, err, want)
			}
			known = append(known, id)
			// A tie of the clocks would be decided by the identifiers.
			at.advance(time.Second / 2)
		},
		"release": func(rt *rapid.T) {
			id := oneOf(rt, known)
			ok, err := s.Release(t.Context(), id)
			if want := m.release(id); ok != want || err != nil {
				rt.Fatalf("Release: %v, %v, the model says %v", ok, err, want)
			}
		},
		"refresh": func(rt *rapid.T) {
			id := oneOf(rt, known)
			r, can := s.(refresher)
			if !can {
				rt.Skip("Basic has no refresh")
			}
			ok, err := r.Refresh(t.Context(), id)
			if want := m.refresh(id, at.now()); ok != want || err != nil {
				rt.Fatalf("Refresh: %v, %v, the model says %v", ok, err, want)
			}
		},
	})
}

// oneOf returns an identifier that was given, if any; refused ones are "".
func oneOf(rt *rapid.T, known []string) string {
	if id := rapid.SampledFrom(append(known, "unknown")).Draw(rt, "id"); id != "" {
		return id
	}
	return "unknown"
}
