package main

import "strings"

// row is one model under one set of macros, and the verdict that it must have.
type row struct {
	model  string
	macros string // separated by spaces, without their -D
	live   bool   // search for endless runs without progress instead of broken assertions
	breaks string // the promise that it must break; "" when it must hold
}

func (r row) expected() string {
	if r.breaks == "" {
		return "holds"
	}
	return "breaks " + r.breaks
}

// variant returns the row's macros as the table shows them.
func (r row) variant() string {
	if r.live {
		return strings.TrimSpace("(progress) " + r.macros)
	}
	return r.macros
}

// defines returns the row's macros as arguments of the compiler.
func (r row) defines() (all []string) {
	if r.live {
		all = append(all, "-DLIVE")
	}
	for m := range strings.FieldsSeq(r.macros) {
		all = append(all, "-D"+m)
	}
	return all
}

// kind is a world in which messages arrive and no process dies or is late. As it has
// no polls either, only the message of a hand-off can wake a waiter there.
const kind = "NO_POLL NO_LOSS NO_DEATH NO_STALL"

var rows = []row{
	{model: "fair", breaks: "limit"},
	{model: "fair", macros: "LOCKED"},
	{model: "fair", macros: "LOCKED LOCK_RUNS_OUT", breaks: "limit"},

	{model: "lease"},
	{model: "lease", macros: "CLIENTS=1 LIMIT=2"},
	{model: "lease", macros: "CLIENTS=1 LIMIT=2 NOT_IDEMPOTENT", breaks: "S5"},
	{model: "lease", macros: "NO_TOMBSTONE", breaks: "S5"},
	{model: "lease", macros: "NO_TOMBSTONE_ON_EXPIRY", breaks: "S5"},
	{model: "lease", macros: "LATE=2", breaks: "S5"},
	{model: "lease", macros: "NO_LATE_BOUND", breaks: "S5"},
	{model: "lease", macros: "BUSY_ENDS", breaks: "S5"},
	{model: "lease", macros: "FULL_TTL_ON_REREAD", breaks: "S3"},
	{model: "lease", macros: "FULL_TTL_ON_REREAD LIMIT_ONLY", breaks: "S1"},
	{model: "lease", macros: "TRUST_FROM_REPLY", breaks: "S3"},
	{model: "lease", macros: "TRUST_FROM_REPLY LIMIT_ONLY", breaks: "S1"},
	{model: "lease", macros: "RENEW_RECREATES", breaks: "S6"},
	{model: "lease", macros: "RENEW_RECREATES LIMIT_ONLY", breaks: "S1"},
	{model: "lease", live: true, macros: "CLIENTS=1"},
	{model: "lease", live: true, macros: "CLIENTS=1 NO_EXPIRY", breaks: "L2"},

	{model: "move"},
	{model: "move", macros: "MOVE_COPIES", breaks: "S1"},
	{model: "move", macros: "MOVE_NOT_IDEMPOTENT", breaks: "S5"},
	{model: "move", macros: "NO_TOMBSTONE_ON_MOVE", breaks: "S5"},
	{model: "move", macros: "NO_TOMBSTONE_AT_NEW_ID", breaks: "S5"},
	{model: "move", macros: "ONE_RELEASE", breaks: "S5"},
	{model: "move", macros: "FULL_TTL_ON_REPEAT", breaks: "S3"},
	{model: "move", macros: "TRUST_FROM_REPLY", breaks: "S3"},
	{model: "move", macros: "BELIEVES_ON", breaks: "S3"},

	{model: "message"},
	{model: "message", macros: "TRUST_FROM_MESSAGE", breaks: "S3"},
	{model: "message", macros: "TRUST_FROM_UNANSWERED", breaks: "S3"},
	{model: "message", macros: "SAME_ID", breaks: "S3"},
	{model: "message", macros: "GUESSABLE", breaks: "S3"},
	{model: "message", macros: "END_ENDS", breaks: "S6"},

	{model: "queue"},
	{model: "queue", macros: "NO_PUMP_ON_RELEASE", breaks: "L1"},
	{model: "queue", macros: "NO_PUMP_ON_CANCEL", breaks: "L1"},
	{model: "queue", macros: "BARGING", breaks: "S4"},
	{model: "queue", live: true},
	{model: "queue", live: true, macros: "DEATHS=2"},
	{model: "queue", live: true, macros: "NO_POLL", breaks: "live"},
	{model: "queue", live: true, macros: "NO_POLL NO_DEATH NO_STALL", breaks: "live"},
	{model: "queue", live: true, macros: kind},
	{model: "queue", live: true, macros: kind + " SUBSCRIBE_AFTER_TRY", breaks: "live"},
	{model: "queue", live: true, macros: "SUBSCRIBE_AFTER_TRY"},
	{model: "queue", live: true, macros: kind + " NO_PUMP_ON_RELEASE", breaks: "live"},
	{model: "queue", live: true, macros: kind + " NO_PUMP_ON_CANCEL", breaks: "live"},
	{model: "queue", live: true, macros: "NO_REAP_OF_DEAD_WAITERS", breaks: "live"},
	{model: "queue", live: true, macros: "BARGING", breaks: "live"},
}
