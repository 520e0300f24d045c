package berthwatch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/words"
)

// Reasons say who paused, pinned and resized semaphores, as far as the audit goes back.
type Reasons map[string]settings

// settings are the last entries about a semaphore's pause, pins, declared limit and rates.
type settings struct {
	pause, pin, ratesPin, limit *berthadmin.Audited
	rates                       map[string]*berthadmin.Audited // by unit: one command can change several
	purged                      bool                           // nothing older counts
}

// ReasonsIn collects the reasons from an audit, as Inspector.Audit yields it. It stops at an
// error, for example when the user may not read the audit.
func ReasonsIn(audit iter.Seq2[berthadmin.Audited, error]) Reasons {
	all := Reasons{}
	for e, err := range audit {
		if err != nil {
			break
		}
		s := all[e.Name] // the latest come first
		if s.purged {
			continue
		}
		switch e.Verb {
		case "pause", "resume":
			s.pause = cmp.Or(s.pause, &e)
		case "pin", "unpin":
			s.pin = cmp.Or(s.pin, &e)
		case "pin --rate", "unpin --rate":
			s.ratesPin = cmp.Or(s.ratesPin, &e)
		case "resize":
			s.limit = cmp.Or(s.limit, &e)
		case resizedRate:
			if s.rates == nil {
				s.rates = map[string]*berthadmin.Audited{}
			}
			s.rates[e.Unit] = cmp.Or(s.rates[e.Unit], &e)
		case "purge":
			s.purged = true
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

// RatesPin says the same about pinned rates.
func (r Reasons) RatesPin(name string) string {
	return sentence("rates pinned", "pin --rate", r[name].ratesPin)
}

// resizedRate is the verb of the audit for rates.
const resizedRate = "resize --rate"

// Resized says who last declared a limit by hand, which one, when and why, as in "limit 5 → 10 by
// ann@ops-1 14:02", and then the same of the rates of each unit. Programs may have declared others since.
func (r Reasons) Resized(name string) []string { return r[name].changes(change{}, change{}) }

// changes tells how limit and rates changed last, if samples have seen these changes.
func (s settings) changes(limit, rates change) []string {
	byUnit := make([]*berthadmin.Audited, 0, len(s.rates))
	for _, unit := range slices.Sorted(maps.Keys(s.rates)) {
		byUnit = append(byUnit, s.rates[unit])
	}
	return append(limit.told("limit", "resize", s.limit), rates.told("rate", resizedRate, byUnit...)...)
}

// declaration is what was declared last, when a sample was made.
type declaration struct {
	limit   int
	rates   string // as the audit has them
	changes int
	inUse   bool // else it is not known
}

// change is the last change by a declaration, between two samples.
type change struct {
	text string // as in "limit 5 → 10"
	at   time.Time
}

// notice notes what was declared between the last sample and this one.
func (t *track) notice(r *Row, at time.Time) {
	before, now := t.declared, declaration{r.Declared, ratesIn(r.Rates), r.LimitChanges, !r.Idle}
	t.declared = now
	if !before.inUse || !now.inUse || now.changes <= before.changes {
		return
	}
	if before.limit != now.limit {
		t.limit = change{fmt.Sprintf("limit %s → %s", words.Limit(before.limit), words.Limit(now.limit)), at}
	}
	if before.rates != now.rates && !r.RatesPinned { // else an operator did it, and the pin is told
		t.rates = change{fmt.Sprintf("rate %s → %s", before.rates, now.rates), at}
	}
}

// ratesIn are rates in words, as the audit has them.
func ratesIn(all []berthadmin.Rate) string {
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.Declaration()
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// agree is how far an entry of the audit and the sample that shows its effect may be apart.
const agree = 15 * time.Second

// told tells of a change: by operators if one of the entries in the audit is about it, or else by a
// program: by which one, nothing keeps. Nothing, if there was none that the samples or the audit have.
func (c change) told(what, verb string, entries ...*berthadmin.Audited) (all []string) {
	byProgram := !c.at.IsZero()
	for _, e := range entries {
		if e != nil {
			all = append(all, sentence(what+" "+cmp.Or(e.From, "none")+" → "+e.What, verb, e))
			byProgram = byProgram && c.at.Sub(e.At).Abs() >= agree
		}
	}
	if byProgram {
		return []string{c.text + " by a program " + Clock(c.at, time.Now())}
	}
	return all
}

// changed tells how limit and rates of a semaphore changed last.
func (s *Sampler) changed(name string, r Reasons) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.names[name]
	if t == nil {
		t = &track{}
	}
	return r[name].changes(t.limit, t.rates)
}

// remembered is how long reasons are used before the audit is read again.
const remembered = 10 * time.Second

// whys are the reasons for what operators have set.
func (s *Sampler) whys(ctx context.Context, st *berthadmin.State) (all []string) {
	if st == nil || !st.Paused && !st.Pinned && !st.RatesPinned && st.LimitChanges == 0 {
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
	if st.RatesPinned {
		all = append(all, r.RatesPin(st.Name))
	}
	if st.LimitChanges > 0 {
		all = append(all, s.changed(st.Name, r)...)
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
