package repo_test

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	pageLink = regexp.MustCompile(`\]\(([^:)#\s]*)(#[^:)\s]+)?\)`) // to a file of the repository, or a heading
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	loneLink = regexp.MustCompile(`^\s*([-*] )?(!?\[[^\]]*\]\([^)\s]*\)|<?https?://\S+)\S?$`)
	snippet  = regexp.MustCompile("(?s)```.*?```")
)

// TestPages: links between pages lead somewhere, their headings included, and pages are of a size that
// somebody reads.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pageLink.FindAllStringSubmatch(snippet.ReplaceAllString(string(text), ""), -1) {
			file := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if m[2] != "" && !slices.Contains(anchors(t, file), m[2]) {
				t.Errorf("%s links to %s%s: no such heading", page, m[1], m[2])
			}
		}
		lines := slices.Collect(strings.Lines(string(text)))
		if len(lines) > 250 && !strings.HasPrefix(string(text), "<!-- Code generated") {
			t.Errorf("%s has %d lines: nobody reads more than 250", page, len(lines))
		}
	}
}

// anchors are what links to the headings of a page end with, as GitHub makes them.
func anchors(t *testing.T, page string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(snippet.ReplaceAllString(string(text), ""), -1) {
		kept := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, "#"+strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// TestPagesAreAtMost100ColumnsWide, except in code and where a line is one link, which cannot be
// broken. Tables are no exception.
func TestPagesAreAtMost100ColumnsWide(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			code = code != strings.HasPrefix(strings.TrimSpace(line), "```")
			indented := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
			if utf8.RuneCountInString(line) > 100 && !code && !indented && !loneLink.MatchString(line) {
				t.Errorf("%s:%d is wider than 100 columns", page, i+1)
			}
		}
	}
}

// pages are all pages of the repository.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "*/*.md", "docs/*/*.md", "examples/*/*.md", "dev/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		all = append(all, found...)
	}
	return all
}

// TestPagesNameWhatIsThere: tests, targets of make and scripts that pages name exist.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	tests := regexp.MustCompile("`(Test[A-Z]\\w+|Benchmark[A-Z]\\w+|Fuzz[A-Z]\\w+)`")
	targets := regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z-]*)")
	scripts := regexp.MustCompile("(?m)(?:`|^    )(?:\\S+=\\S+ )*(scripts/[a-z-]+)")
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`).FindAllSubmatch(s.text, -1) {
			there[string(m[1])] = true
		}
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllSubmatch(makefile, -1) {
		there["make "+string(m[1])] = true
	}
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tests.FindAllSubmatch(text, -1) {
			if named++; !there[string(m[1])] {
				t.Errorf("%s names %s, which no file has", page, m[1])
			}
		}
		for _, m := range targets.FindAllSubmatch(text, -1) {
			if named++; !there["make "+string(m[1])] {
				t.Errorf("%s has make %s, which the Makefile has not", page, m[1])
			}
		}
		for _, m := range scripts.FindAllSubmatch(text, -1) {
			named++
			if _, err := os.Stat(string(m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if named < 100 {
		t.Errorf("found only %d names: does this test still read pages?", named)
	}
}

// TestSnippetsAreExamplesThatRun: every Go snippet of a page stands, line for line, in
// an example that tests run, or in a program of examples.
func TestSnippetsAreExamplesThatRun(t *testing.T) {
	var examples strings.Builder
	for _, s := range sources(t) {
		if path.Base(s.path) == "example_test.go" || strings.HasPrefix(s.path, "examples/") {
			examples.WriteString(unindented(string(s.text)))
		}
	}
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if page == "README.md" && len(snippets) == 0 {
			t.Error("the README shows no Go")
		}
		for _, s := range snippets {
			if page != "docs/tutorial.md" && !strings.Contains(examples.String(), unindented(s[1])) { // TestTutorial runs that
				t.Errorf("%s: this snippet is no example that runs:\n%s", page, s[1])
			}
			_, body := parser.ParseExpr("func() {" + s[1] + "}")
			_, file := parser.ParseFile(token.NewFileSet(), page, "package p\n"+s[1], 0)
			_, whole := parser.ParseFile(token.NewFileSet(), page, s[1], 0)
			if body != nil && file != nil && whole != nil {
				t.Errorf("%s: this snippet is not whole: %v\n%s", page, body, s[1])
			}
		}
	}
}

// unindented strips each line, so that only the text counts.
func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
