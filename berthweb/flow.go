package berthweb

import (
	"time"

	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/words"
)

// flow is what was heard of a semaphore, or of all, for people.
type flow struct {
	Handoffs string // a second, in the last five minutes; "": nothing is heard
	Expired  int    // in the last hour
	Why      string // why nothing is heard
}

// flow returns what was heard of a semaphore; of all together if name is "".
func (s *site) flow(name string, events berthwatch.Feed) flow {
	if !events.Listening {
		why := "there is no subscription yet"
		if events.Err != nil {
			why = short(events.Err)
		}
		return flow{Why: why}
	}
	now := time.Now()
	return flow{
		Handoffs: words.Figure(s.sampler.Flow(name, now.Add(-5*time.Minute)).PerSecond()),
		Expired:  s.sampler.Flow(name, now.Add(-time.Hour)).Expired,
	}
}
