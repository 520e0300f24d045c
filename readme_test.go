package berth_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeSnippetsAreExamplesThatRun: every Go snippet of the README stands,
// line for line, in an example.
func TestReadmeSnippetsAreExamplesThatRun(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(snippets) == 0 {
		t.Fatal("the README shows no Go")
	}
	for _, s := range snippets {
		if !strings.Contains(unindented(string(examples)), unindented(s[1])) {
			t.Errorf("this snippet is no example that runs:\n%s", s[1])
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
