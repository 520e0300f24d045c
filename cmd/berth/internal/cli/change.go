package cli

import (
	"strconv"
	"strings"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

const notInUse = "not in use"

// standing describes a semaphore: its limit, what an operator has set, and how much of
// it is in use. nil is a semaphore that is not in use.
func standing(s *berth.State) string {
	if s == nil {
		return notInUse
	}
	return change(s, s)
}

// change describes a semaphore, with "old → new" where it has changed.
func change(before, after *berth.State) string {
	switch {
	case before == nil && after == nil:
		return notInUse
	case before == nil:
		return notInUse + " → " + standing(after)
	case after == nil:
		return standing(before) + " → " + notInUse
	}
	words := []string{"limit " + arrow(effective(before), effective(after))}
	if before.Pinned || after.Pinned {
		words = append(words, onOff("pinned", before.Pinned, after.Pinned), "declared "+arrow(screen.Declared(before.Declared), screen.Declared(after.Declared)))
	}
	if before.Paused || after.Paused {
		words = append(words, onOff("paused", before.Paused, after.Paused))
	}
	words = append(words, arrow(strconv.Itoa(before.InUse), strconv.Itoa(after.InUse))+" in use",
		arrow(strconv.Itoa(before.Waiting), strconv.Itoa(after.Waiting))+" waiting")
	return strings.Join(words, ", ")
}

// effective is the limit in force.
func effective(s *berth.State) string {
	if s.Pinned {
		return strconv.Itoa(s.Limit)
	}
	return screen.Declared(s.Declared)
}

func arrow(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}

func onOff(word string, before, after bool) string {
	switch {
	case before == after:
		return word
	case after:
		return "now " + word
	default:
		return "no longer " + word
	}
}

// sameSettings reports whether everything that an operator can set is equal.
func sameSettings(a, b *berth.State) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Limit == b.Limit && a.Declared == b.Declared && a.Pinned == b.Pinned && a.Paused == b.Paused
}
