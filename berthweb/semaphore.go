package berthweb

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

const (
	recordsPage = 200 // of holders, and of waiters
	mostSlots   = 64  // that are drawn
	mostAudited = 10  // entries of the audit beside a semaphore
)

// part tells which records are shown, of how many.
type part struct {
	First, Last, All int
	Of               int // All before the filter
	Prev, Next       string
}

// finder is what holders and waiters are filtered by: a part of a label, tenant, host or process number, a
// pattern of one, or the beginning of an id.
type finder string

func (f finder) finds(id, label, tenant, host string, pid int) bool {
	process := strconv.Itoa(pid)
	return strings.HasPrefix(id, string(f)) || slices.ContainsFunc([]string{label, tenant, host, process, host + ":" + process}, func(text string) bool {
		return berthwatch.Match(text, string(f))
	})
}

func (f finder) holders(all []berthadmin.Holder) (found []berthadmin.Holder) {
	for _, h := range all {
		if f.finds(h.ID, h.Label, h.Tenant, h.Host, h.PID) {
			found = append(found, h)
		}
	}
	return found
}

func (f finder) waiters(all []berthadmin.Waiter) (found []berthadmin.Waiter) {
	for _, w := range all {
		if f.finds(w.ID, w.Label, w.Tenant, w.Host, w.PID) {
			found = append(found, w)
		}
	}
	return found
}

// slot is one of the slots of a semaphore, and who has it.
type slot struct {
	N    int
	Look string
	Who  string
}

// waiter is a waiter.
type waiter struct{ berthadmin.Waiter }

// Place is where a waiter is in the queue, from 1.
func (w waiter) Place() int { return w.Ahead + 1 }

// Cost is what it costs of the rates, where that is not its weight.
func (w waiter) Cost() string { return berthwatch.Costs(&w.Waiter) }

// semaphoreData is the data of a semaphore's page.
type semaphoreData struct {
	page
	Name  string
	State *berthadmin.State // nil: it is idle, unreadable, or not read yet
	Row   berthwatch.Row
	gauge
	Badges          []badge
	Flow            flow
	Shares          []berthwatch.Shares
	Waited          []time.Duration // p50, p95 and p99 of those who wait
	Blocked         string
	Reasons         []string
	Problem         string // it cannot be read
	Damaged, Idle   bool   // damaged: and no newer berth wrote it, so that a purge is a way out
	Slots           []slot
	Holders         []berthadmin.Holder
	Waiters         []waiter
	HolderPart      part
	WaiterPart      part
	Charts          []chart
	Audit           []berthadmin.Audited
	Commands        []string // the commands that show and do the same
	Limit, MaxLimit int      // for the forms
}

func (s *site) semaphorePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("name")
	h, errH := number(q, "holders", 0, 0, mostFrom)
	f, errW := number(q, "waiters", 0, 0, mostFrom)
	find, errQ := filterIn(q)
	if err := errors.Join(validName(name), errH, errW, errQ); err != nil {
		s.fail(w, r, err)
		return
	}
	v, detail := s.look(r, name)
	if errors.Is(detail.Err, berth.ErrInvalid) {
		s.fail(w, r, detail.Err)
		return
	}
	d := semaphoreData{page: s.page(r, name, "semaphore"), Name: name, Reasons: detail.Why, MaxLimit: berth.MaxLimit}
	status := d.state(&v, &detail)
	d.Commands = s.commands(name, d.State)
	d.Search = &search{"s?" + url.Values{"name": {name}}.Encode(), find, "label, tenant, host or process", map[string]string{"name": name}}
	d.records(q, h, f, finder(find))
	now := time.Now()
	history := s.sampler.History(name, now.Add(-time.Hour))
	recent := history[at(history, now.Add(-5*time.Minute)):]
	d.Charts = []chart{
		newChart(recent, now, 5*time.Minute, "Last 5 minutes", "5 min ago"),
		newChart(history, now, time.Hour, "Last hour", "1 h ago"),
	}
	d.Flow = s.flow(name, v.Events)
	if audit, err := s.audit(r, name); err == nil {
		d.Audit = audit[:min(len(audit), mostAudited)]
	}
	s.renderLive(w, r, status, "semaphore", &d.page, &d)
}

// commands returns the commands that show and change a semaphore. st is nil if it is not known.
func (s *site) commands(name string, st *berthadmin.State) (all []string) {
	action := func(verb string) { // with a reason, which the audit keeps
		a := berthwatch.Action{Verb: verb, Name: name, Reason: "REASON"}
		if st != nil {
			a.Limit = berthwatch.ToPin(&st.Summary)
		}
		all = append(all, s.Command+" "+berthwatch.Quote(a.Args()))
	}
	look := func(words ...string) { all = append(all, s.Command+" "+berthwatch.Quote(words)) }
	look(berthwatch.Action{Verb: "show", Name: name}.Args()...)
	look("audit", name)
	if st != nil {
		action("pause")
		action("resume")
		action("pin")
		action("unpin")
		if len(st.Rates) > 0 {
			a := berthwatch.Action{Verb: "resize", Name: name, Rates: berthwatch.RateFlags(st.Rates), Reason: "REASON"}
			look(a.Args()...)
			a.Verb = "pin"
			look(a.Args()...)
		}
		if st.RatesPinned {
			look(berthwatch.Action{Verb: "unpin", Name: name, Rated: true, Reason: "REASON"}.Args()...)
		}
		if len(st.Leases) > 0 {
			a := berthwatch.Action{Verb: "evict", Name: name, ID: st.Leases[0].ID, Reason: "REASON"}
			look(a.Args()...)
		}
	}
	action("purge")
	return all
}

// at returns the index of the first point since a moment.
func at(points []berthwatch.Point, since time.Time) int {
	i, _ := slices.BinarySearchFunc(points, since.UnixMilli(), func(p berthwatch.Point, at int64) int { return int(p.At - at) })
	return i
}

// state fills in what is known, and returns the status of the response.
func (d *semaphoreData) state(v *berthwatch.View, detail *berthwatch.Detail) int {
	away := detail.Err
	switch {
	case errors.Is(detail.Err, berthadmin.ErrNotFound):
		d.Idle = true
		d.freshness(v, v.At, nil)
		return http.StatusNotFound
	case errors.Is(detail.Err, berth.ErrCorrupt):
		code, hint, text := codeOf(detail.Err)
		d.Damaged, d.Problem = code == "damaged", text+". "+hint
		row := berthwatch.Row{Err: detail.Err}
		d.Badges = badges(d.Name, row.States())
		d.freshness(v, v.At, nil)
		return http.StatusOK
	}
	if v.Err != nil {
		away = v.Err
	}
	d.freshness(v, detail.At, away)
	if detail.State == nil {
		if d.Searching = away == nil; d.Searching {
			return http.StatusOK // it will be there soon
		}
		return http.StatusServiceUnavailable
	}
	st := detail.State
	d.State, d.Row = st, berthwatch.Row{Summary: st.Summary}
	d.Badges, d.Blocked = badges(d.Name, d.Row.States()), berthwatch.Blocked(st)
	d.Shares = berthwatch.SharesOf(st)
	d.Waited = berthwatch.Waited(st.Queue, 50, 95, 99)
	d.gauge = gaugeOf(&st.Summary)
	return http.StatusOK
}

// records fills in the holders and waiters that are shown.
func (d *semaphoreData) records(q url.Values, holders, waiters int, find finder) {
	st := d.State
	if st == nil {
		return
	}
	leases, queue := find.holders(st.Leases), find.waiters(st.Queue)
	d.HolderPart = parted(q, "holders", holders, len(leases), len(st.Leases))
	d.Holders = leases[max(d.HolderPart.First-1, 0):d.HolderPart.Last]
	d.WaiterPart = parted(q, "waiters", waiters, len(queue), len(st.Queue))
	for i := max(d.WaiterPart.First-1, 0); i < d.WaiterPart.Last; i++ {
		d.Waiters = append(d.Waiters, waiter{queue[i]})
	}
	d.slots()
}

// slots fills in the slots, where each holder has one.
func (d *semaphoreData) slots() {
	st := d.State
	heavy := slices.ContainsFunc(st.Leases, func(h berthadmin.Holder) bool { return h.Weight != 1 })
	if st.Limit > mostSlots || st.Limit < 2 || heavy { // a heavy lease has one slot, and several permits
		return
	}
	d.Slots = make([]slot, st.Limit)
	for i := range d.Slots {
		d.Slots[i] = slot{N: i, Look: "free", Who: "free"}
	}
	for _, h := range st.Leases {
		if h.Slot < len(d.Slots) && h.Slot >= 0 {
			at := slot{N: h.Slot, Look: "held", Who: berthwatch.Person(h.Label, h.Host, h.PID)}
			if h.Expired || h.Evicting {
				at.Look = "odd"
			}
			d.Slots[h.Slot] = at
		}
	}
}

// parted returns the part that begins at from of all records that pass the filter.
func parted(q url.Values, key string, from, all, of int) part {
	from = min(from, max(all-1, 0))
	p := part{First: min(from+1, all), Last: min(from+recordsPage, all), All: all, Of: of}
	if from > 0 {
		p.Prev = with(q, key, strconv.Itoa(max(from-recordsPage, 0)))
	}
	if p.Last < all {
		p.Next = with(q, key, strconv.Itoa(p.Last))
	}
	return p
}

// Which tells which are shown; "" if all are.
func (p part) Which() string {
	text := ""
	if p.First > 1 || p.Last < p.All {
		text = fmt.Sprintf("%d to %d of ", p.First, p.Last)
	}
	switch {
	case p.All < p.Of:
		return fmt.Sprintf("%s%d that pass the filter, of %d", text, p.All, p.Of)
	case text != "":
		return text + strconv.Itoa(p.All)
	}
	return ""
}

// Percentiles are the names of Waited.
func (d *semaphoreData) Percentiles() []string { return []string{"waiting, p50", "p95", "p99"} }

// RateFlags are its rates for the form.
func (d *semaphoreData) RateFlags() string { return berthwatch.RateFlags(d.State.Rates) }

// Rates are what is spent of its rates.
func (d *semaphoreData) Rates() string { return berthwatch.Rates(&d.State.Summary) }

// Sentence returns a reason as a sentence.
func (d *semaphoreData) Sentence(reason string) string {
	return strings.ToUpper(reason[:1]) + reason[1:] + "."
}
