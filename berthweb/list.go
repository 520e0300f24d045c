package berthweb

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/words"
)

const (
	pageSize  = 100
	mostLimit = 1000 // of rows or records in one answer
	mostFrom  = 1 << 20
	// stuck is for how many semaphores with waiters the list tells who has held longest,
	// for which they are read in full.
	stuck = 12
	// A limit is flapping if it has changed so often in so many minutes, as in the alert
	// BerthLimitFlapping.
	flaps    = 5
	flapSpan = 15 * time.Minute
)

// states are what the list can be limited to.
var states = []string{"contended", "paused", "pinned", "flapping", "damaged"}

// choice is the part of the list that is shown.
type choice struct {
	Filter, State, Order string
	Reverse              bool
	Group                string // 1: keyed names are one row, 0: they are not; "": with Options.Group
	from, limit          int
}

// chosen reads a choice from a query. Unknown words are an error.
func chosen(q url.Values) (c choice, err error) {
	c = choice{State: q.Get("state"), Order: q.Get("sort"), Reverse: q.Get("reverse") == "1", Group: q.Get("group")}
	if c.Filter, err = filterIn(q); err != nil {
		return c, err
	}
	if c.Order == "" {
		c.Order = berthwatch.Orders[0]
	}
	switch {
	case c.State != "" && !slices.Contains(states, c.State):
		return c, &badRequest{http.StatusBadRequest, "state", "There is no such state.", fmt.Sprint("One of ", states, ".")}
	case !slices.Contains(berthwatch.Orders, c.Order):
		return c, &badRequest{http.StatusBadRequest, "sort", "There is no such order.", fmt.Sprintf("One of %q.", berthwatch.Orders)}
	}
	if c.from, err = number(q, "cursor", 0, 0, mostFrom); err != nil {
		return c, err
	}
	c.limit, err = number(q, "limit", pageSize, 1, mostLimit)
	return c, err
}

// number reads a number between bounds.
func number(q url.Values, key string, def, least, most int) (int, error) {
	text := q.Get(key)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, &badRequest{http.StatusBadRequest, key, key + " is not a number, or out of bounds.", fmt.Sprintf("From %d to %d.", least, most)}
	}
	return n, nil
}

// is reports whether a row is in a state.
func (s *site) is(r *berthwatch.Row, state string) bool {
	switch state {
	case "contended":
		return r.Waiting > 0
	case "paused":
		return r.Paused
	case "pinned":
		return r.Pinned || r.RatesPinned
	case "flapping":
		return s.sampler.LimitChanges(r.Name, time.Now().Add(-flapSpan)) >= flaps
	case "damaged":
		return r.Err != nil
	}
	return true
}

// choose returns the rows that are chosen, in order, and how many there are in each state.
func (s *site) choose(rows []berthwatch.Row, c choice) (chosen []berthwatch.Row, counts map[string]int) {
	counts = map[string]int{}
	for _, r := range rows {
		if !berthwatch.Match(r.Name, c.Filter) {
			continue
		}
		counts[""]++
		for _, state := range states {
			if s.is(&r, state) {
				counts[state]++
			}
		}
		if s.is(&r, c.State) {
			chosen = append(chosen, r)
		}
	}
	berthwatch.Sort(chosen, c.Order, c.Reverse)
	return chosen, counts
}

// slice returns the bounds of the page in n rows.
func (c *choice) slice(n int) (from, to int) {
	from = min(c.from, n)
	return from, min(from+c.limit, n)
}

// chip is a link to a part of the list.
type chip struct {
	Name, URL string
	Count     int
	Current   bool
}

// entry is a row as it is shown.
type entry struct {
	berthwatch.Row
	gauge
	Sound  bool // it can be read, and is not idle
	Badges []badge
	Spark  spark
	URL    string // of its page; of a group, the list of its semaphores
	Who    string // who paused or pinned it, or has held longest if there are waiters
}

// listData is the list as it is shown.
type listData struct {
	page
	choice
	Heads      []head
	Chips      []chip
	Entries    []entry
	Total      int // before the choice
	Used       int
	Waiting    int
	Oldest     time.Duration
	Flow       flow
	Trip       string // how long Redis takes to answer
	Dropped    int
	Matching   int
	Rows       int // fewer, where some are grouped
	Grouped    bool
	GroupURL   string // the other way; "": there is nothing to group
	First      int    // number of the first that is shown
	Last       int
	Prev, Next string
}

func (s *site) listPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	c, err := chosen(q)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, _ := s.look(r, "")
	d := listData{page: s.page(r, "Semaphores", "list"), choice: c, Total: len(v.Rows), Dropped: v.Dropped}
	d.Search = &search{"./", c.Filter, "part of a name, or api/*", map[string]string{"state": c.State, "sort": c.Order, "reverse": q.Get("reverse"), "group": c.Group}}
	d.freshness(&v, v.At, v.Err)
	if d.Searching = !v.Whole && v.Err == nil; v.SearchErr != nil && v.Err == nil {
		d.Stale, d.Searching = "Names cannot be searched for: "+short(v.SearchErr), false
	}
	for i := range v.Rows {
		d.Used, d.Waiting, d.Oldest = d.Used+v.Rows[i].InUse, d.Waiting+v.Rows[i].Waiting, max(d.Oldest, v.Rows[i].OldestWait)
	}
	d.Flow = s.flow("", v.Events)
	if v.Trips.Mean > 0 {
		d.Trip = words.Millis(v.Trips.Mean)
	}
	rows, counts := s.choose(v.Rows, c)
	d.links(q, counts)
	d.Matching = len(rows)
	rows, groups := s.fold(&d, q, rows)
	from, to := c.slice(len(rows))
	d.First, d.Last, d.Rows = min(from+1, len(rows)), to, len(rows)
	if from > 0 {
		d.Prev = with(q, "cursor", strconv.Itoa(max(from-c.limit, 0)))
	}
	if to < len(rows) {
		d.Next = with(q, "cursor", strconv.Itoa(to))
	}
	for i := range rows[from:to] {
		d.Entries = append(d.Entries, s.entry(&rows[from+i], groups[rows[from+i].Name], q, v.At))
	}
	s.who(r, d.Entries)
	status := http.StatusOK
	if v.At.IsZero() && v.Err != nil {
		status = http.StatusServiceUnavailable
	}
	s.renderLive(w, r, status, "list", &d.page, &d)
}

// fold groups the rows if that is wanted, and returns the groups by their names.
func (s *site) fold(d *listData, q url.Values, rows []berthwatch.Row) ([]berthwatch.Row, map[string]*group) {
	of, some := s.grouping(rows)
	if d.Grouped = d.Group == "1" || d.Group == "" && len(s.Group) > 0; !d.Grouped {
		if some {
			d.GroupURL = with(q, "group", "1", "cursor", "")
		}
		return rows, nil
	}
	d.GroupURL = with(q, "group", "0", "cursor", "")
	rows, groups := grouped(rows, of)
	berthwatch.Sort(rows, d.Order, d.Reverse)
	return rows, groups
}

// head is the header of a column, by which the list can be sorted.
type head struct{ Title, URL, Sorted, Class string }

// columns are the columns' titles and orders.
var columns = []struct{ title, order, class string }{
	{"Name", "name", ""},
	{"In use", "use", ""},
	{"Waiting", "waiting", "num"},
	{"Oldest", "oldest wait", "num"},
	{"Who", "", "wide"},
	{"Expiry", "next expiry", "num wide"},
	{"Last minute", "", "wide"},
}

// links fills in the links of the list, to its parts and orders.
func (d *listData) links(q url.Values, counts map[string]int) {
	for _, c := range columns {
		h := head{Title: c.title, Class: c.class}
		if c.order != "" {
			h.URL = with(q, "sort", c.order, "reverse", "", "cursor", "")
		}
		if c.order == d.Order {
			if h.Sorted = "descending"; d.Reverse != (c.order == "name" || c.order == "next expiry") {
				h.Sorted = "ascending"
			}
			if !d.Reverse {
				h.URL = with(q, "sort", c.order, "reverse", "1", "cursor", "")
			}
		}
		d.Heads = append(d.Heads, h)
	}
	d.Chips = append(d.Chips, chip{"all", with(q, "state", "", "cursor", ""), counts[""], d.State == ""})
	for _, state := range states {
		d.Chips = append(d.Chips, chip{state, with(q, "state", state, "cursor", ""), counts[state], d.State == state})
	}
}

// entry returns how a row is shown; g is the group that it stands for, or nil.
func (s *site) entry(r *berthwatch.Row, g *group, q url.Values, now time.Time) entry {
	e := entry{Row: *r, Sound: r.Err == nil && !r.Idle, gauge: gaugeOf(&r.Summary)}
	since := now.Add(-time.Minute)
	if g != nil {
		e.URL, e.Who, e.Badges = "./"+with(q, "q", g.Name, "group", "0", "cursor", ""), g.who(), badges(g.Name, g.states())
		e.Spark = sparkline(g.history(s.sampler, since), now)
		return e
	}
	e.URL = "s?" + url.Values{"name": {r.Name}}.Encode()
	states := r.States()
	if e.Sound {
		if s.is(r, "flapping") {
			states = append(states, "flapping")
		}
		e.Spark = sparkline(s.sampler.History(r.Name, since), now)
	}
	e.Badges = badges(r.Name, states)
	return e
}

// who fills in who paused, pinned or blocks a semaphore.
func (s *site) who(r *http.Request, entries []entry) {
	var reasons berthwatch.Reasons
	left := stuck
	for i := range entries {
		e := &entries[i]
		if (e.Paused || e.Pinned || e.RatesPinned) && e.Who == "" && reasons == nil {
			audit, err := s.audit(r, "")
			reasons = berthwatch.ReasonsIn(func(yield func(berthadmin.Audited, error) bool) {
				for i := 0; err == nil && i < len(audit) && yield(audit[i], nil); i++ {
				}
			})
		}
		switch {
		case e.Who != "": // a group
		case e.Paused:
			e.Who = reasons.Paused(&e.Summary)
		case e.Pinned:
			e.Who = reasons.Pin(e.Name)
		case e.RatesPinned:
			e.Who = reasons.RatesPin(e.Name)
		case e.Waiting > 0 && left > 0:
			left--
			if st := s.sampler.Detail(e.Name).State; st != nil {
				if h := berthwatch.Longest(st); h != nil {
					e.Who = "held by " + berthwatch.Person(h.Label, h.Host, h.PID) + " for " + words.Age(h.Held)
				}
				if most := berthwatch.MostWaiting(st); most != "" {
					e.Who += "; most wait for " + most
				}
			}
		}
	}
}

// gauge is a bar of the permits in use.
type gauge struct {
	Bar  int // of 100
	Look string
}

func gaugeOf(s *berthadmin.Summary) (g gauge) {
	switch {
	case s.InUse > s.Limit:
		g = gauge{100, "bad"}
	case s.InUse == s.Limit:
		g = gauge{100, "full"}
	case s.InUse > 0:
		g.Bar = max(s.InUse*100/s.Limit, 2)
	}
	if s.InUse == 0 {
		g.Bar = 0
	}
	return g
}

// Where tells which of the rows are shown.
func (d *listData) Where() string {
	all := words.Plural(d.Matching, "semaphore")
	if d.Rows < d.Matching {
		all += fmt.Sprintf(" in %d rows", d.Rows)
	}
	if d.Last-d.First+1 >= d.Rows {
		return all
	}
	return fmt.Sprintf("%d to %d of %s", d.First, d.Last, all)
}
