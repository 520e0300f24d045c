package berth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	pageLink = regexp.MustCompile(`\]\(([^:)#\s]+)[^:)\s]*\)`) // to a file of the repository
	anyWidth = regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)")    // code and targets of links cannot be broken
	noProse  = regexp.MustCompile(`^(\||    |\t)`)             // tables, indented code
)

// TestPages: links between pages lead somewhere, and pages are of a size that
// somebody reads.
func TestPages(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pageLink.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
		lines := slices.Collect(strings.Lines(string(text)))
		if len(lines) > 250 {
			t.Errorf("%s has %d lines: nobody reads more than 250", page, len(lines))
		}
		code := false
		for i, line := range lines {
			code = code != strings.HasPrefix(line, "```")
			prose := anyWidth.ReplaceAllString(strings.TrimSpace(line), "")
			if !code && !noProse.MatchString(line) && utf8.RuneCountInString(prose) > 100 {
				t.Errorf("%s:%d is wider than 100 columns", page, i+1)
			}
		}
	}
}
