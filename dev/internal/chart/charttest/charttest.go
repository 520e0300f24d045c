// Package charttest checks the pages of reports.
package charttest

import (
	"regexp"
	"strconv"
	"testing"
)

var (
	table    = regexp.MustCompile(`<table`)
	scrolled = regexp.MustCompile(`<div class="scroll">\s*<table`)
	drawing  = regexp.MustCompile(`viewBox="0 0 ([0-9]+)`)
)

// FitsANarrowScreen fails the test unless every table scrolls in its own box, and the text
// of every drawing can be read on a screen 390 pixels wide.
func FitsANarrowScreen(t *testing.T, page []byte) {
	t.Helper()
	if all, boxed := len(table.FindAll(page, -1)), len(scrolled.FindAll(page, -1)); all == 0 || boxed != all {
		t.Errorf("%d of %d tables are in a box that scrolls", boxed, all)
	}
	drawings := drawing.FindAllSubmatch(page, -1)
	if len(drawings) == 0 {
		t.Error("no drawing")
	}
	for _, d := range drawings {
		if width, err := strconv.Atoi(string(d[1])); err != nil || width > 560 {
			t.Errorf("a drawing is %s wide", d[1])
		}
	}
}
