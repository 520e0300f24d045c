package protocol

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The first number of "state" is that of the layout: a client that knows a lower one says
// ErrVersion, and otherwise takes what it does not know for damage. testdata/layout-N.txt has what
// was stored under the number N when it was new, and other versions of berth read that. So its
// lines never change, and have every form that N has: whatever is stored otherwise has another
// number, and a file of its own.

// layoutStories end with every kind of record, member and key.
func layoutStories() map[string][]event {
	label := func(t *Terms) { t.Label = "a label" }
	brief := func(t *Terms) { t.TTL, t.Heartbeat = 3*time.Second, 2*time.Second }
	costly := func(t *Terms) { t.HeadStart, t.Costs, t.MaxHold = 4*time.Second, ":6", time.Minute }
	rate := func(t *Terms) { t.Rates, t.Costs = ":7/60000", ":3" }
	several := func(t *Terms) { t.Rates, t.Costs = ":9/1000,:90/60000,b:2/1000+40,t:7/60000", "t:6" }
	acme := func(t *Terms) { t.Tenant, t.Share = "acme", 3 }
	return map[string][]event{
		"alone": {{ops: ask(0, 5, 1, label)}, {ops: renew(0)}},
		"holders": {
			{ops: ask(0, 9, 2)},
			{process: 1, ops: ask(1, 9, 3, label, costly)},
			{ops: ask(2, 9, 1)},
			{ops: ask(3, 9, 1)},
			{ops: back(0)},
			{ops: each(Op{Verb: Evict}, cast[2])},
			{ops: move(3, 0)},
		},
		"waiters":     {{ops: ask(0, 2, 2)}, {process: 1, ops: ask(1, 2, 1, label)}, {ops: ask(2, 2, 2, costly)}},
		"a hand-off":  {{ops: ask(0, 2, 2)}, {process: 1, ops: ask(1, 2, 1, label)}, {ops: ask(2, 2, 2, costly)}, {ops: back(0)}},
		"too heavy":   {{ops: ask(0, 4, 4)}, {ops: ask(1, 4, 3)}, {ops: []Op{{Verb: Resize, N: 2}}}, {ops: back(0)}},
		"an operator": {{ops: []Op{{Verb: Pin, N: 6}}}, {ops: []Op{{Verb: Pause, Flag: true}}}},
		"paused":      {{ops: ask(0, 3, 1)}, {ops: []Op{{Verb: Pause, Flag: true}}}, {ops: ask(1, 3, 1)}},
		"tombstones": {
			{ops: append(ask(0, 9, 1, brief), ask(1, 9, 1)...)},
			{ops: tomb(1)},
			{ops: ask(2, 9, 1)},
			{ops: each(Op{Verb: Evict, Flag: true}, cast[2])},
			{pause: 4 * time.Second},
		},
		"a pause that ends": {{ops: []Op{{Verb: Cool, TTL: time.Minute, Who: "ann@ops-1"}}}, {ops: ask(0, 3, 1)}},
		"a rate":            {{ops: ask(0, 3, 1, rate)}, {ops: ask(1, 3, 1, rate)}, {ops: ask(2, 3, 1, rate)}, {ops: back(0)}},
		"several rates":     {{ops: ask(0, 3, 1, several)}, {ops: []Op{{Verb: Settle, ID: cast[0], Costs: "t:5"}}}, {ops: ask(1, 3, 1)}},
		"an idle rate":      {{ops: []Op{{Verb: Pin, N: 6}, {Verb: SetRates, Rates: ":5/3600000"}}}},
		"a former line":     {{ops: ask(0, 1, 1)}, {ops: ask(1, 1, 1, acme)}, {ops: back(0)}},
		"tenants": {
			{ops: ask(0, 1, 1, acme)},
			{process: 1, ops: ask(1, 1, 1, acme)},
			{process: 2, ops: ask(2, 1, 1, acme)},
			{ops: ask(3, 1, 1)},
		},
	}
}

// TestChangedLayoutHasAnotherNumber also writes down what it does not find: the file of a new
// number, and a new story of what a number had before.
func TestChangedLayoutHasAnotherNumber(t *testing.T) {
	t.Parallel()
	for number, stories := range tellLayouts(t) {
		known := layouts()[number]
		for _, title := range slices.Sorted(maps.Keys(stories)) {
			is, was := stories[title], known.stories[title]
			if is == was {
				continue
			}
			if unknown := known.lacks(formsOf(is)); was == "" && (known.stories == nil || unknown == "") {
				writeLayout(t, number, title, is)
				continue
			}
			t.Errorf("%q is stored otherwise than layout %s stores it, and other versions may take it for damage.\n"+
				"Raise the number in front of \"state\", and leave testdata/layout-%s.txt as it is.\nstored\n%swas\n%s",
				title, number, number, is, was)
		}
	}
}

// tellLayouts returns what the stories store, by the number of the layout and a title. They are told
// where keys carry no TTL, where they carry one, and where there is a rate, which has another layout.
func tellLayouts(t *testing.T) map[string]map[string]string {
	t.Helper()
	told := map[string]map[string]string{}
	for _, rate := range []int{0, 1000} {
		for _, keeps := range []bool{false, true} {
			r := embedded(t, keeps)
			for name, story := range layoutStories() {
				stored := r.tellLayout(t, story, rate)
				number := regexp.MustCompile(`(?m)^state = (\w+)`).FindStringSubmatch(stored)[1]
				if told[number] == nil {
					told[number] = map[string]string{}
				}
				told[number][fmt.Sprintf("%s, %d an hour, keys have TTLs: %v", name, rate, keeps)] = stored
			}
		}
	}
	return told
}

// tellLayout returns what a story stores, if all that say no rate acquire with this one.
func (r *rig) tellLayout(t *testing.T, story []event, rate int) string {
	t.Helper()
	clock := start
	r.reset(t)
	for _, e := range story {
		for _, op := range e.ops {
			if rate > 0 && op.Verb == Acquire && op.Terms.Rates == "" {
				op.Terms.Rates, _ = JoinRates(Rate{N: rate, Per: time.Hour})
			}
		}
		clock = clock.Add(time.Second + e.pause)
		r.mr.SetTime(clock)
		r.do(t, e.process, e.ops...)
	}
	return r.layoutText(t, clock)
}

// writeLayout adds a story to the file of a layout.
func writeLayout(t *testing.T, number, title, stored string) {
	t.Helper()
	file := "testdata/layout-" + number + ".txt"
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // as git makes it
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "== %s\n%s", title, stored)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s had nothing of %q, and has now: read it, and commit it", file, title)
}

// layoutText is all that is in the database, but for what changes without the layout: the version
// of the client, and how far times are apart. Times are numbered, in ms and in us.
func (r *rig) layoutText(t failer, clock time.Time) string {
	t.Helper()
	ctx := context.Background()
	keys, err := r.rdb.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatalf("%v", err)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, key := range keys {
		lasts := "stays"
		if r.rdb.PTTL(ctx, key).Val() > 0 {
			lasts = "has a TTL"
		}
		fmt.Fprintf(&b, "%s is a %s and %s\n", key, r.rdb.Type(ctx, key).Val(), lasts)
	}
	text := strings.ReplaceAll(b.String()+r.storedAs(t).String(), client, "CLIENT")
	return numberTimes(numberTimes(text, "ms", clock.UnixMilli()), "us", clock.UnixMicro())
}

// numberTimes puts, for the times of a text that are within 1 % of now, the unit and their place in
// order. The score of a waiter without a tenant is a time less 2^53.
func numberTimes(text, unit string, now int64) string {
	read := func(word string) (at int64, turn string) {
		n, _ := strconv.ParseInt(word, 10, 64)
		if n < 0 {
			n, turn = n+front, " - 2^53"
		}
		if n < now-now/100 || n > now+now/100 {
			return 0, ""
		}
		return n, turn
	}
	long := regexp.MustCompile(`-?\d{13,}`)
	var times []int64
	for _, word := range long.FindAllString(text, -1) {
		at, _ := read(word)
		times = append(times, at)
	}
	times = slices.Compact(slices.Sorted(slices.Values(append(times, 0)))) // 0 is first, and no time
	return long.ReplaceAllStringFunc(text, func(word string) string {
		at, turn := read(word)
		if at == 0 {
			return word
		}
		return fmt.Sprint(unit, slices.Index(times, at), turn)
	})
}

// knownLayout is what was stored under the number of a layout, by story.
type knownLayout struct {
	stories map[string]string
	forms   map[string]bool
}

// layouts reads testdata.
var layouts = sync.OnceValue(func() map[string]knownLayout {
	known := map[string]knownLayout{}
	files, err := fs.Glob(os.DirFS("testdata"), "layout-*.txt")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			panic(err)
		}
		l := knownLayout{map[string]string{}, map[string]bool{}}
		for _, story := range strings.Split(string(text), "== ")[1:] {
			title, stored, _ := strings.Cut(story, "\n")
			l.stories[title] = stored
			for _, form := range formsOf(stored) {
				l.forms[form] = true
			}
		}
		known[strings.TrimSuffix(strings.TrimPrefix(file, "layout-"), ".txt")] = l
	}
	return known
})

// lacks returns the first of forms that the layout does not have.
func (l knownLayout) lacks(forms []string) string {
	for _, form := range forms {
		if !l.forms[form] {
			return form
		}
	}
	return ""
}

// formsOf are the forms of the lines of a text: what is stored, without its values.
func formsOf(stored string) (forms []string) {
	for line := range strings.Lines(stored) {
		if name, record, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = "); ok {
			forms = append(forms, form(name, record))
		} else if member, score, ok := strings.Cut(line, " @ "); ok {
			forms = append(forms, form(member, score))
		}
	}
	return forms
}

// numeral is a word that layoutText may make of a number.
var numeral = regexp.MustCompile(`^(-?\d+|ms\d+|us\d+)\n?$`)

// form is the kind of a name, and its record as far as that is letters and numbers.
func form(name, value string) string {
	kind := "id"
	switch {
	case name == "state" || name == note:
		kind = name
	case numeral.MatchString(name):
		kind = "number"
	case strings.HasPrefix(name, "!"):
		kind = name[:2]
	case strings.HasPrefix(name, "#"):
		kind = "#"
	}
	words := strings.Split(value, " ")
	for i, word := range words {
		switch {
		case numeral.MatchString(word):
			words[i] = "N"
		case i > 0: // an owner or another text
			return fmt.Sprint(kind, ": ", strings.Join(words[:i], " "), " text")
		}
	}
	return fmt.Sprint(kind, ": ", strings.Join(words, " "))
}

// checkForms checks that a layout had what is stored under its number when it was new.
func checkForms(t failer, d dump) {
	t.Helper()
	number, _, _ := strings.Cut(d.fields["state"], " ")
	var forms []string
	for name, record := range d.fields {
		forms = append(forms, form(name, record))
	}
	for member, score := range d.scores {
		text := fmt.Sprintf("%.0f", score)
		if score < -(1 << 52) { // a ticket
			text += " - 2^53"
		}
		forms = append(forms, form(member, text))
	}
	l, known := layouts()[number]
	if unknown := l.lacks(forms); known && unknown != "" { // a new number gets its file from the stories
		t.Fatalf("layout %s had no %q: raise the number in front of \"state\" (see layout_test.go)\n%v", number, unknown, d)
	}
}
