package cli

import (
	"strings"
	"testing"
)

// Columns line up by what a terminal shows, whatever the names are made of.
func TestTablesLineUpWideCharacters(t *testing.T) {
	tab := newTable("NAME", "LIMIT")
	for _, name := range []string{"plain", "漢字かな", "e\u0301e\u0301", "🚢🚢", "한글", "ｆｕｌｌ"} {
		tab.row(name, "5")
	}
	want := "" +
		"NAME      LIMIT\n" +
		"plain     5\n" +
		"漢字かな  5\n" +
		"e\u0301e\u0301        5\n" +
		"🚢🚢      5\n" +
		"한글      5\n" +
		"ｆｕｌｌ  5\n"
	if got := tab.text(0); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A table that is wider than the terminal changes its form; no line of it wraps
// unless one value alone is too wide.
func TestTablesFitTheTerminal(t *testing.T) {
	tab := newTable("SLOT", "HOLDER", "LEASE")
	tab.row("0", "sync", "abcdefghijkl.1")
	tab.row("1", "", "")
	for columns, want := range map[int]string{
		0: "SLOT  HOLDER  LEASE\n" +
			"0     sync    abcdefghijkl.1\n" +
			"1\n",
		28: "SLOT  HOLDER  LEASE\n" +
			"0     sync    abcdefghijkl.1\n" +
			"1\n",
		27: "SLOT  HOLDER\n" +
			"  LEASE\n" +
			"0     sync\n" +
			"  abcdefghijkl.1\n" +
			"1\n",
		15: "SLOT    0\n" +
			"HOLDER  sync\n" +
			"LEASE   abcdefghijkl.1\n" +
			"\n" +
			"SLOT    1\n",
	} {
		if got := tab.text(columns); got != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", columns, got, want)
		}
	}
}

// One long name takes a line more, and leaves the others a table; an id is not taken apart.
func TestOneLongNameLeavesATable(t *testing.T) {
	long := strings.Repeat("n", 250)
	tab := newTable("NAME", "IN USE", "STATE")
	tab.row("a", "1", "")
	tab.row(long, "2", "paused by ann@ops-1: the API moves")
	want := "" +
		"NAME  IN USE\n" +
		"  STATE\n" +
		"a     1\n" +
		long + "\n" +
		"      2\n" +
		"  paused by ann@ops-1: the\n" +
		"    API moves\n"
	if got := tab.text(26); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A value of several words breaks between them; an id, which people copy, stays whole.
func TestListsBreakBetweenWords(t *testing.T) {
	tab := newTable("NAME", "STATE")
	tab.row("abcdefghijklmnop.1", "pinned by ann@ops-1, declared none")
	want := "" +
		"NAME   abcdefghijklmnop.1\n" +
		"STATE  pinned by\n" +
		"       ann@ops-1,\n" +
		"       declared\n" +
		"       none\n"
	if got := tab.text(17); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What could rearrange the screen does not reach it.
func TestTablesAreClean(t *testing.T) {
	tab := newTable("NAME")
	tab.row("a\x1b[2J\tb\u202e")
	if got := tab.text(0); strings.ContainsAny(got, "\x1b\t\u202e") {
		t.Errorf("%q", got)
	}
}

func TestSentencesFitTheTerminal(t *testing.T) {
	const text = "name: 3 of 3 in use by 3 holders, 漢字 waiting"
	for columns, want := range map[int]string{
		0:  text,
		80: text,
		20: "name: 3 of 3 in use\n  by 3 holders, 漢字\n  waiting",
		4:  "name:\n  3\n  of\n  3\n  in\n  use\n  by\n  3\n  holders,\n  漢字\n  waiting",
	} {
		if got := fill(text, columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
}

// A column of which all cells are empty is left out; otherwise its empty cells are marked.
func TestTenantsAreAColumnWhereThereAreSome(t *testing.T) {
	for tenant, want := range map[string]string{
		"":     "HOLDER  PID\na       1\nb       2\n",
		"acme": "HOLDER  TENANT  PID\na       acme    1\nb       -       2\n",
	} {
		tab := newTable("HOLDER", tenantColumn, "PID")
		tab.row("a", tenant, "1")
		tab.row("b", "", "2")
		if got := tab.optional(tenantColumn).text(0); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if got := newTable("HOLDER", tenantColumn).optional(tenantColumn).text(0); got != "HOLDER\n" {
		t.Errorf("got %q", got)
	}
}
