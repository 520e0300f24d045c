package berthwatch

import (
	"fmt"
	"path"
	"strings"

	"github.com/berth-go/berth"
)

// Groups are patterns such as "api/*", for names with keys in them: semaphores that match one are
// counted together under it.
type Groups []string

// Check fails with berth.ErrInvalid if a pattern is malformed.
func (g Groups) Check() error {
	for _, pattern := range g {
		if _, err := path.Match(pattern, ""); err != nil {
			return &berth.InvalidError{What: "group", Reason: fmt.Sprintf("%.40q is not a pattern", pattern)}
		}
	}
	return nil
}

// Of returns the first pattern that a name matches, or the name.
func (g Groups) Of(name string) string {
	for _, pattern := range g {
		if ok, _ := path.Match(flat.Replace(pattern), flat.Replace(name)); ok {
			return pattern
		}
	}
	return name
}

// flat hides slashes, which have no meaning in a name, from path.Match.
var flat = strings.NewReplacer("/", "\n")

// fewest is how many names share a prefix for it to be a group.
const fewest = 3

// ByPrefix returns the groups of names that have the same text before their last slash or colon,
// each with its pattern. Smaller ones than of three names are left out.
func ByPrefix(names []string) func(name string) string {
	sizes := map[string]int{}
	for _, name := range names {
		sizes[prefix(name)]++
	}
	return func(name string) string {
		if p := prefix(name); p != "" && sizes[p] >= fewest {
			return literal(p) + "*"
		}
		return name
	}
}

// prefix is a name up to its last slash or colon; "" if it has none.
func prefix(name string) string { return name[:strings.LastIndexAny(name, "/:")+1] }
