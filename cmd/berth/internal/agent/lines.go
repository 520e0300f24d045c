package agent

import (
	"errors"
	"strings"

	"github.com/berth-go/berth"
)

// The lines of an answer. All times are in milliseconds.
type (
	queuedLine struct {
		Event  string     `json:"event"`
		Name   string     `json:"name,omitempty"` // of which limit, where there are several
		Ahead  int        `json:"ahead"`          // waiters in front
		InUse  int        `json:"in_use"`         // permits out
		Limit  int        `json:"limit,omitempty"`
		Paused bool       `json:"paused"`
		Rate   *spentRate `json:"rate,omitempty"`
		Retry  rest       `json:"retry_after_ms,omitzero"` // for so long, at the least, a rate or a pause does not let it in
	}
	grantedLine struct {
		Event string `json:"event"`
		ID    string `json:"id"` // to settle it
		Slot  int    `json:"slot"`
		Token int64  `json:"token"`
		Limit int    `json:"limit,omitempty"` // in force at the grant
		left
		All []grant `json:"all,omitempty"` // each permit, where there are several; the first is above
	}
	// grant is one of several permits.
	grant struct {
		Name  string `json:"name"`
		Slot  int    `json:"slot"`
		Token int64  `json:"token"`
		Limit int    `json:"limit,omitempty"`
	}
	renewedLine struct {
		Event string `json:"event"`
		left
	}
	// left is until when a holder may rely on its permit.
	left struct {
		UntilBoot int64 `json:"until_boot_ms"` // by this machine's CLOCK_BOOTTIME
		Remaining int64 `json:"remaining_ms"`  // when the line was written
	}
	unsettledLine struct {
		Event   string `json:"event"`
		Message string `json:"message"`
	}
	stopLine struct {
		Event     string `json:"event"`
		Reason    string `json:"reason"`       // evicted or shutdown
		Remaining int64  `json:"remaining_ms"` // until the permit is taken back
	}
	lostLine struct {
		Event   string `json:"event"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	releasedLine struct {
		Event   string `json:"event"`
		Message string `json:"message,omitempty"` // why it is not certain
	}
	refusedLine struct {
		Event string `json:"event"`
		refusal
	}
)

// lostReasons are the library's in a word.
var lostReasons = map[berth.LostReason]string{
	berth.LostUntrusted: "untrusted", berth.LostExpired: "expired", berth.LostMaxHold: "max_hold", berth.LostEvicted: "evicted",
	berth.LostVanished: "vanished", berth.LostReleased: "released", berth.LostAdopted: "adopted", berth.LostUnknown: "unknown",
}

// lostTo is the line for a lease that is lost, or that the agent's own end has ended.
func lostTo(err error) lostLine {
	reason := "shutdown"
	if lost, ok := errors.AsType[*berth.LostError](err); ok {
		reason = lostReasons[lost.Reason]
	}
	return lostLine{"lost", reason, plain(err)}
}

// plain is an error's text without the library's name in front.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "berth: ") }

// spentRate is a rate, and what is spent of it.
type spentRate struct {
	Unit  string `json:"unit"`
	N     int    `json:"n"`
	Per   int64  `json:"per_ms"`
	Burst int    `json:"burst,omitempty"`
	Spent int    `json:"spent"`
}

// rateOf is the rate that a state tells of; nil: there is none.
func rateOf(s *berth.Status) *spentRate {
	if s.Rate == 0 {
		return nil
	}
	return &spentRate{s.Unit, s.Rate, s.Window.Milliseconds(), s.Burst, s.Spent}
}

// limitOf is a limit to count with; 0 where there is none but a rate.
func limitOf(limit int) int {
	if limit == berth.NoLimit {
		return 0
	}
	return limit
}
