package protocol

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// head of an acquire with one word replaced.
func acquireHead(place int, word string) string {
	words := strings.SplitN("1 1 0 3 10000 0 100 30000 "+anOwner+" a label", " ", 10)
	words[place] = word
	return "A" + strings.Join(words, " ")
}

// badRequests are requests, each with one thing wrong, and the word that is named.
func badRequests() map[string][]string {
	bad := map[string][]string{}
	add := func(names string, args ...string) { bad[strings.Join(args, "|")] = append([]string{names}, args...) }
	addBadAcquires(add)
	for _, head := range []string{"H", "H-1 1", "H05 1", "H1000", "H1000 2", "H1000 1 1", "L", "L2", "L00", "L0 ", "R", "R-1", "R1e3", "R9999999999999", "R05", "E", "E2", "M0", "M0 " + anOwner + " x", "M0 host"} {
		add("", "0", head, "a.1")
	}
	for _, head := range []string{"", " ", "X", "I-inf 0 0", "a", "l0", "\n"} {
		add("verb", "0", head, "a.1")
	}
	for c := byte('A'); c <= 'Z'; c++ { // of ids, that hold and wait
		for _, words := range []string{"", "0", "1", "0 1", "5000", "0 :1"} {
			if head := string(c) + words; heads[c] == nil && c != 'B' {
				add("verb", "0", head, "s0.2")
				add("verb", "0", "1", head, "2", "s0.2", "s0.3")
			}
		}
	}
	for _, head := range []string{"D", "D-1", "Dx", "D1 1", "P", "P-2", "P-01", "Z", "Z2", "Z400"} {
		add("", "0", "1", head, "0")
	}
	addBadRates(add)
	addBadTenants(add)
	for _, id := range []string{"", "state", "a b.1", "a.1 2", "a.1\n", "1", "12", "!pause", "#a.1", "a.", ".a", "a", "a-b.1"} {
		add("id", "0", acquireHead(0, "1"), id)
		add("id", "0", "L1", id)
		add("id", "0", "1", "M0 "+anOwner, "2", "a.1", id)
		add("id", "0", "1", acquireHead(0, "1"), "2", "a.1", id)
	}
	for _, head := range []string{"L0", "R5000", "H1000 1", "E1"} {
		add("id state", "0", head, "state")
	}
	for _, bound := range []string{"", "x", "-5", "1.5", "nan", "inf"} {
		add("bound", bound, "L0", "a.1")
		add("bound", bound)
	}
	for _, args := range [][]string{
		{"0", "L0"},
		{"0", "L0", "a.1", "a.2"},
		{"0", "1", "L0", "1"},
		{"0", "1", "L0", "2", "a.1"},
		{"0", "2", "L0", "1", "a.1"},
		{"0", "1", "L0", "x", "a.1"},
		{"0", "x", "L0", "1", "a.1"},
		{"0", "1", "L0", "0"},
		{"0", "1", "D5", "1", "a.1"},
		{"0", "D5"},
		{"0", "1"},
		{"0", "1", "M0 " + anOwner, "1", "a.1"},
		{"0", "2", acquireHead(0, "1"), "1", "L0", "1", "a.8", "a.9"},
		{"0", "999", "L0", "1", "a.1"},
		{"0", "1", "L0", "1", "a.1", "a.2"},
		{"0", "0", "L0", "1", "a.1"},
		{"0", "1", "L0", "-1", "a.1"},
		append([]string{"0", "1", "L0", "251"}, ids(251)...),
	} {
		add("", args...)
	}
	return bad
}

// addBadRates adds what is no rate, or no cost.
func addBadRates(add func(names string, args ...string)) {
	for _, rates := range []string{
		"", "0", "3", ":", ":1", ":1/0", ":0/10", ":1/9", ":1/2592000001", ":1073741825/1000", ":01/1000", ":1/01000", ":-1/1000", ":1/1000/1", ":x/10", ":1/1e3", "1/1000",
		":1/1000+", ":1/1000+0", ":1/1000+05", ":1/1000+1073741825", ":1/2592000000+13", ":1/1000,", ",:1/1000", ":1/1000,:2/1000", ":1/1000,:2/1000+3", "--", "- ",
		"none:1/1000", "Tokens:1/1000", "9:1/1000", "-:1/1000", "a b:1/1000", strings.Repeat("a", 17) + ":1/1000", ":1/1000,:1/1001,:1/1002,:1/1003,:1/1004",
	} {
		add("", "0", "1", "Q0 * "+rates, "0")
		add("", "0", "B"+rates+" - "+acquireHead(0, "1"), "a.1")
	}
	for _, costs := range []string{"", "x", "1", ":", ":-1", ":01", ":1073741825", ":1 :1", ":1e3", "t:1,t:2", ":1,", "none:1", "a:1,b:1,c:1,d:1,e:1", "--"} {
		add("", "0", "B:1/1000 "+costs+" "+acquireHead(0, "1"), "a.1")
		add("", "0", "S"+costs, "a.1")
		add("", "0", "L0 "+costs, "a.1")
	}
	for _, head := range []string{"H1000 0", "R1000", "S0", "L0", "E1"} {
		for _, id := range []string{"state", "!r", "!p", "!tacme"} {
			add("id "+id, "0", head, id)
		}
	}
	for _, head := range []string{"S", "S0 0", "S-", "L0 -", "L2 0", "L0 0 0", "L0  0", "B- -", "B:1/1000 :1 L0", "B:1/1000 :1"} {
		add("", "0", head, "a.1")
	}
	for _, head := range []string{
		"Q", "Q0", "Q0 *", "Q0 -", "Q* -", "Q2 * -", "Q-1 * -", "Q0 * - -", "Q0 t -", "Q1 t: :1/1000", "Q0 : t:1/1000", "Q0 none: -", "Q1 *: -", "Q1 1000",
		"U ", "U0", "U *",
	} {
		add("", "0", "1", head, "0")
	}
	add("", "0", "1", "S0", "0")
}

// addBadTenants adds what is no tenant, and no share of one.
func addBadTenants(add func(names string, args ...string)) {
	for _, tenant := range []string{"", "\x01", "a\x7f", strings.Repeat("ü", 65), strings.Repeat("a", 65), strings.Repeat("\xbf", 257)} {
		add("tenant", "0", acquireHead(8, anOwner+";tenant="+tenant), "a.1")
	}
	for _, share := range []string{"", "0", "101", "05", "-1", "x", "1.5", "1e1"} {
		add("share", "0", acquireHead(8, anOwner+";share="+share+";tenant=acme"), "a.1")
		add("share", "0", "1", acquireHead(8, anOwner+";share="+share+";tenant=acme"), "1", "a.1")
	}
	add("owner", "0", "1", "M0 "+anOwner+";tenant=acme", "2", "a.1", "a.2")
	add("verb", "0", "T1000 "+acquireHead(8, anOwner+";tenant=acme"), "a.1")
}

// addBadAcquires adds acquires with one word wrong.
func addBadAcquires(add func(names string, args ...string)) {
	for place := range 8 {
		for _, word := range []string{"x", "-1", "1.5", "1e3", "0x10", "07", "1234567890123", "nan", "inf", strings.Repeat("9", 400)} {
			add(word[:min(len(word), 20)], "0", acquireHead(place, word), "a.1")
			add(word[:min(len(word), 20)], "0", "1", acquireHead(place, word), "1", "a.1")
		}
	}
	for _, place := range []int{1, 4, 7} {
		add("0", "0", acquireHead(place, "0"), "a.1")
	}
	add("2", "0", acquireHead(0, "2"), "a.1")
	for _, owner := range []string{"py-worker", "/host", "1/", "1", ":/x", "::1/h"} {
		add(owner, "0", acquireHead(8, owner), "a.1")
	}
	add("", "0", "A1 1 0 3 10000 0 100 30000 "+anOwner, "a.1") // a label may be empty, but has its space
	add("", "0", "A1 1 0 3", "a.1")
}

// furnished are states of a semaphore: none, one lease alone, and all kinds of records.
func furnished() map[string]setup {
	return map[string]setup{
		"nothing": func(t failer, r *rig) { r.reset(t) }, "compact": compact, "furnish": furnish,
	}
}

// TestBadRequestsAreRefused: with the word that is wrong, and nothing changed.
func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		for name, lay := range furnished() {
			sent := 0
			for _, request := range badRequests() {
				if sent%50 == 0 {
					lay(t, r) // again, before its leases end on a busy machine
				}
				sent++
				names, args := request[0], request[1:]
				if args[0] == "0" && len(args) > 1 && fits(args) {
					t.Fatalf("%q is said to fit", args)
				}
				before := r.exactly(t)
				_, err := r.send(args...)
				if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "BERTHREQUEST ") || !strings.Contains(err.Error(), names) {
					t.Errorf("%s, %.200q: %v, want it to name %q", name, args, err, names)
				}
				if after := r.exactly(t); !reflect.DeepEqual(before, after) {
					t.Fatalf("%s, %.200q: %v, and changed\n%q\nto\n%q", name, args, err, before, after)
				}
			}
			r.soundAfterAll(t)
		}
	})
}
