package berthwatch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/words"
)

// Reasons say who paused, pinned and resized semaphores, as far as the audit goes back.
type Reasons map[string]settings

// settings are the last entries about a semaphore's pause, pin and declared limit.
type settings struct{ pause, pin, limit *berthadmin.Audited }

// ReasonsIn collects the reasons from an audit, as Inspector.Audit yields it. It stops at an
// error, for example when the user may not read the audit.
func ReasonsIn(audit iter.Seq2[berthadmin.Audited, error]) Reasons {
	all := Reasons{}
	for e, err := range audit {
		if err != nil {
			break
		}
		s := all[e.Name] // the latest come first
		switch e.Verb {
		case "pause", "resume":
			s.pause = cmp.Or(s.pause, &e)
		case "pin", "unpin":
			s.pin = cmp.Or(s.pin, &e)
		case "resize":
			s.limit = cmp.Or(s.limit, &e)
		case "purge": // nothing older counts
			s.pause, s.pin, s.limit = cmp.Or(s.pause, &e), cmp.Or(s.pin, &e), cmp.Or(s.limit, &e)
		}
		all[e.Name] = s
	}
	return all
}

// Pause says who paused a semaphore, when and why, as in "paused by ann@ops-1 14:02:
// migration"; only "paused" if that is not known.
func (r Reasons) Pause(name string) string {
	return sentence("paused", "pause", r[name].pause)
}

// Paused is Pause for a semaphore that is paused: a pause that ends by itself says who set it, and
// the audit adds why.
func (r Reasons) Paused(s *berthadmin.Summary) string {
	text := Paused(s)
	if text == "" {
		return r.Pause(s.Name)
	}
	if e := r[s.Name].pause; e != nil && e.Verb == "pause" && e.Who == s.PausedBy && e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Pin says the same about a pin.
func (r Reasons) Pin(name string) string {
	return sentence("pinned", "pin", r[name].pin)
}

// Resized returns who last declared a limit by hand, which one, when and why, as in "limit 5 → 10 by
// ann@ops-1 14:02"; "" if that is not known. Programs may have declared others since.
func (r Reasons) Resized(name string) string {
	e := r[name].limit
	if e == nil || e.Verb != "resize" {
		return ""
	}
	return sentence("limit "+cmp.Or(e.From, "none")+" → "+e.What, "resize", e)
}

// change is a change of the limit in force that was seen: between two samples.
type change struct {
	from, to int32
	at       time.Time
}

// lastChange returns the last declaration that changed the limit, as far as the history goes back.
func (t *track) lastChange() (last change) {
	var before *Point
	for p := range t.since(time.Time{}) {
		if before != nil && p.LimitChanges > before.LimitChanges && p.Limit != before.Limit && !p.Idle && !before.Idle {
			last = change{before.Limit, p.Limit, time.UnixMilli(p.At)}
		}
		before = &p
	}
	return last
}

// agree is how far an entry of the audit and the sample that shows its effect may be apart.
const agree = 15 * time.Second

// changed tells how the limit of a semaphore changed last, and whether an operator or a program did it:
// which program, nothing keeps. "": nobody saw it change.
func (s *Sampler) changed(name string, r Reasons) string {
	s.mu.Lock()
	c := s.names[name].lastChange()
	s.mu.Unlock()
	e := r[name].limit
	switch byHand := r.Resized(name); {
	case c.at.IsZero(), e != nil && e.Verb == "resize" && c.at.Sub(e.At).Abs() < agree:
		return byHand
	}
	return fmt.Sprintf("limit %s → %s by a program %s", words.Limit(int(c.from)), words.Limit(int(c.to)), Clock(c.at, time.Now()))
}

// remembered is how long reasons are used before the audit is read again.
const remembered = 10 * time.Second

// whys are the reasons for what operators have set.
func (s *Sampler) whys(ctx context.Context, st *berthadmin.State) (all []string) {
	if st == nil || !st.Paused && !st.Pinned && st.LimitChanges == 0 {
		return nil
	}
	s.mu.Lock()
	r, old := s.reasons, time.Since(s.reasonsAt) > remembered
	s.mu.Unlock()
	if old {
		r = ReasonsIn(s.in.Audit(ctx))
		s.mu.Lock()
		s.reasons, s.reasonsAt = r, time.Now()
		s.mu.Unlock()
	}
	if st.Paused {
		all = append(all, r.Paused(&st.Summary))
	}
	if st.Pinned {
		all = append(all, r.Pin(st.Name))
	}
	if text := s.changed(st.Name, r); text != "" && st.LimitChanges > 0 {
		all = append(all, text)
	}
	return all
}

func sentence(text, verb string, e *berthadmin.Audited) string {
	if e == nil || e.Verb != verb {
		return text // or by somebody whom the audit does not know
	}
	text += " by " + e.Who + " " + Clock(e.At, time.Now())
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Clock is a time with as much of its date as it needs.
func Clock(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if now.Sub(at) < 12*time.Hour || at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}
