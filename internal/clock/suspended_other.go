//go:build !linux

package clock

import "time"

// suspended is not known here: Valid may be late by a suspension.
func suspended() time.Duration { return 0 }

func suspendedAtMost() time.Duration { return 0 }
