package peer

import (
	"context"
	"time"

	"github.com/berth-go/berth/bench/internal/stat"
)

// Spin implements Driver.
func (n *node) Spin(ctx context.Context, l Load) (*Outcome, error) {
	var answer struct {
		TookMS  float64
		Each    []int
		Beliefs [][3]float64
	}
	request := map[string]any{"op": "spin", "forMS": millis(l.For), "holdMS": millis(l.Hold), "times": l.Times}
	if err := n.child.Ask(ctx, request, &answer); err != nil {
		return nil, err
	}
	out := &Outcome{Took: fromMillis(answer.TookMS), Each: answer.Each}
	for _, pairs := range answer.Each {
		out.Pairs += pairs
	}
	for _, b := range answer.Beliefs {
		out.Beliefs = append(out.Beliefs, stat.Belief{Asked: fromMillis(b[0]), Start: fromMillis(b[1]), End: fromMillis(b[2])})
	}
	return out, nil
}

// Pass implements Driver.
func (n *node) Pass(ctx context.Context, count int, pause, most time.Duration) ([]time.Duration, error) {
	var answer struct{ TookMS []float64 }
	request := map[string]any{"op": "pass", "n": count, "pauseMS": millis(pause), "mostMS": millis(most), "pollMS": millis(n.poll)}
	if err := n.child.Ask(ctx, request, &answer); err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(answer.TookMS))
	for i, ms := range answer.TookMS {
		took[i] = fromMillis(ms)
	}
	return took, nil
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func fromMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
