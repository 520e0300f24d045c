package look

import (
	"github.com/berth-go/berth/internal/protocol"
)

// inTurns brings the queue into the order in which its lines would be served if nobody else came and
// all fitted: "Lines" in transition.lua.
func (a *reading) inTurns() {
	if len(a.places) == 0 {
		return
	}
	var names []string
	lines := map[string][]Record{}
	for _, w := range a.snap.Queue {
		if lines[w.Tenant] == nil {
			names = append(names, w.Tenant)
		}
		lines[w.Tenant] = append(lines[w.Tenant], w)
	}
	at := map[string]float64{}
	for _, name := range names {
		at[name] = a.places[name] + protocol.NoPlace
	}
	at[""] = float64(a.snap.PlainPlace())
	for i := range a.snap.Queue {
		least := ""
		for _, name := range names {
			if len(lines[name]) == 0 {
				continue
			}
			if len(lines[least]) == 0 || at[name] < at[least] || at[name] == at[least] && name < least {
				least = name
			}
		}
		w := lines[least][0]
		a.snap.Queue[i], lines[least] = w, lines[least][1:]
		at[least] += float64(a.snap.Step(w.Weight, w.Costs, w.Share))
	}
}
