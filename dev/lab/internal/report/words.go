package report

import (
	"fmt"
	"strings"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/stage"
)

// sentence says what happened to one algorithm. A general remark has no Key and Name.
type sentence struct{ Key, Name, Text string }

// words returns sentences about what happened to the algorithms in a scenario, all
// derived from the numbers.
func (r *Report) words(list []*stage.Result) (all []sentence) {
	for _, res := range list {
		s := sentence{Key: res.Algorithm, Name: title(res.Title) + " "}
		switch {
		case res.Growth != nil:
			s.Text = wordsGrowth(res)
		case res.Crash != nil:
			s.Text = wordsCrash(res)
		case res.Pause != nil:
			s.Text = wordsPause(res)
		case res.Cut != nil:
			s.Text = wordsCut(res)
		case res.Scenario == scenario.Fairness.Key:
			s.Text = wordsOrder(res)
		default:
			s.Text = wordsLimit(res)
		}
		all = append(all, s)
	}
	if r.Embedded && list[0].Growth != nil {
		all = append(all, sentence{Text: "The embedded store sorts a whole set to find a place in it, so that everything costs more " +
			"as it grows here. Redis does not: run this one with --redis."})
	}
	return all
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func wordsLimit(r *stage.Result) string {
	l := r.Limits
	if l.Moments == 0 {
		return fmt.Sprintf("kept the limit: never did more than %s believe to hold one of %s.",
			plural(l.MostHeld, "client"), plural(r.Limit, "permit")) + wordsRate(r)
	}
	s := fmt.Sprintf("exceeded the limit of %d in %s, %s of the time, by up to %s.",
		r.Limit, plural(l.Moments, "moment"), percent(l.OverShare), plural(l.WorstOver, "holder"))
	s += fmt.Sprintf(" %s of %s permits (%s) were given to a client while all were believed to be taken.",
		chart.Group(l.Stolen), chart.Group(r.Rate.Acquires), percent(float64(l.Stolen)/float64(max(1, r.Rate.Acquires))))
	return s + wordsRate(r)
}

func wordsRate(r *stage.Result) string {
	if r.Scenario != "contended" {
		return ""
	}
	s := fmt.Sprintf(" It gave %.0f permits per second, %s of what is possible, for %.1f commands each; "+
		"half of the requests waited for more than %s, the unluckiest for %s.",
		r.Rate.PerSecond, percent(r.Rate.PerSecond/r.Rate.Ideal), r.Rate.Sent, ms(r.Waits.P50MS), ms(r.Waits.MaxMS))
	if r.Limits.Moments > 0 {
		s += " Permits that are given twice do not count as speed."
	}
	return s
}

func wordsOrder(r *stage.Result) string {
	w := r.Waits
	if w.Overtaken == 0 {
		return fmt.Sprintf("served %s in the order in which they came; the longest wait was %s.",
			plural(w.Requests, "request"), ms(w.MaxMS))
	}
	s := fmt.Sprintf("let later ones pass %s of %s requests, the unluckiest %s; half waited for more than %s, the longest wait was %s.",
		percent(overtakenShare(w)), chart.Group(w.Requests), times(w.MostBy), ms(w.P50MS), ms(w.MaxMS))
	if r.Limits.Moments > 0 {
		s += fmt.Sprintf(" Some waited less than they should have: the limit was exceeded %s of the time.", percent(r.Limits.OverShare))
	}
	return s
}

func wordsCrash(r *stage.Result) string {
	c := r.Crash
	s := fmt.Sprintf("had the crashed holders' permits in use again after %s.", backs(r))
	if c.Early > 0 {
		s += fmt.Sprintf(" %d of them had not timed out yet: the limit was not what kept others away.", c.Early)
	}
	if c.StallMS > r.TimeoutMS/2 {
		return s + fmt.Sprintf(" The process that died in the middle of its acquire kept everybody out for %s, although permits were free.",
			ms(c.StallMS))
	}
	return s + fmt.Sprintf(" After the death in the middle of an acquire the next client had a permit within %s.", ms(c.StallMS))
}

func wordsPause(r *stage.Result) string {
	p := r.Pause
	s := fmt.Sprintf("gave the permit to another client %s after the holder had been stopped.", ms(p.OthersMS))
	switch {
	case p.Told && r.Limits.Moments == 0:
		s += fmt.Sprintf(" When the holder woke up, its time was known to be over: it saw that %s later, and did nothing before.", ms(p.AwakeMS))
	case p.Told:
		s += fmt.Sprintf(" The holder woke up, asked, and learnt %s later that it had lost the permit; until then two believed to have it.", ms(p.AwakeMS))
	case p.Reported:
		s += fmt.Sprintf(" The holder woke up and worked on for %s beside it; even its release said that all was well.", ms(p.AwakeMS))
	default:
		s += fmt.Sprintf(" The holder woke up and worked on for %s beside it; it learnt of its loss when it released.", ms(p.AwakeMS))
	}
	return s
}

func wordsCut(r *stage.Result) string {
	c := r.Cut
	s := fmt.Sprintf("had the permit in use again %s after a release whose request was lost", ms(c.LostBackMS))
	if c.LostBackMS > r.TimeoutMS/2 {
		s += ": it had to time out"
	}
	s += fmt.Sprintf(", and %s after one whose reply was lost.", ms(c.BackMS))
	if c.Wrong > 0 {
		return s + fmt.Sprintf(" Repeated, %d of %d releases said that the permit had timed out. It had not.", c.Wrong, c.Replies)
	}
	return s + " Every release was reported as what it was."
}

func wordsGrowth(r *stage.Result) string {
	first, last := r.Growth[0], r.Growth[len(r.Growth)-1]
	s := fmt.Sprintf("took %s for an acquire and release with %s others, and %s with %s: %s as much.",
		micros(first.P50US), chart.Group(first.Holders), micros(last.P50US), chart.Group(last.Holders), ratio(last.P50US/first.P50US))
	if first.ServerUS != nil && last.ServerUS != nil {
		s += fmt.Sprintf(" Redis spent %s on it at first, %s in the end, and did nothing else meanwhile.",
			micros(*first.ServerUS), micros(*last.ServerUS))
	}
	return s
}
