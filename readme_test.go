package berth_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestSnippetsAreExamplesThatRun: every Go snippet of a page stands, line for line, in
// an example.
func TestSnippetsAreExamplesThatRun(t *testing.T) {
	var examples strings.Builder
	for _, s := range sources(t) {
		if path.Base(s.path) == "example_test.go" {
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
			if !strings.Contains(examples.String(), unindented(s[1])) {
				t.Errorf("%s: this snippet is no example that runs:\n%s", page, s[1])
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
