package testenv

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// IsMessage matches what is published, not the confirmations of subscriptions.
func IsMessage(c redistest.Command) bool { return len(c) > 0 && c[0] == "message" }

// IsLook matches the requests that read a page of a semaphore: a score, and two numbers where others
// have an operation and its id.
func IsLook(c redistest.Command) bool {
	first := afterBound(c)
	return redistest.IsScript(c) && len(c) == first+2 && strings.Trim(c[first], "0123456789") == ""
}

// afterBound is behind EVALSHA, the hash, the number of keys, the keys and the bound.
func afterBound(c redistest.Command) int { return 4 + redistest.Declares(c) }

// Carries matches the requests that carry one of these operations (protocol.Verb).
func Carries(verbs ...string) func(redistest.Command) bool {
	return func(c redistest.Command) bool {
		return slices.ContainsFunc(Verbs(c), func(v string) bool { return slices.Contains(verbs, v) })
	}
}

// Verbs returns the operations that a request to the script carries: groups of a
// head that begins with the verb, a number of ids, and ids; or one head, and its id.
func Verbs(c redistest.Command) (all []string) {
	first := afterBound(c)
	if !redistest.IsScript(c) || len(c) <= first || IsLook(c) {
		return nil
	}
	if len(c) == first+2 {
		return []string{c[first][:1]}
	}
	groups, _ := strconv.Atoi(c[first])
	for i := range groups {
		all = append(all, c[first+1+2*i][:1])
	}
	return all
}
