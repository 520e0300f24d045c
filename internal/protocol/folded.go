package protocol

import (
	"fmt"
	"regexp"
	"strconv"
)

// band is the least score of a deadline, BAND in transition/general.lua.
const band = 1 << 32

// folded is what the only field of a folded semaphore stands for. It belongs to
// one lease, and nobody waits: see transition/folded.lua.
type folded struct {
	settings, counts string
	id, record       string
	deadline         int64
}

// foldedField is the pattern by which transition/folded.lua unfolds:
//
//	1 ID last deadline expires terms
var foldedField = regexp.MustCompile(`(?s)^1 (\S+) (\d+) (\d+) (\d+) A[01] 1 \d+ 0 0 (\d+) \d+ \d+ (\S+ .*)$`)

// unfold reads the settings of a folded semaphore. Of another's it reports false.
func unfold(settings string) (folded, bool) {
	m := foldedField.FindStringSubmatch(settings)
	if m == nil {
		return folded{}, false
	}
	id, last, expires, limit, who := m[1], m[2], m[4], m[5], m[6]
	deadline, err := strconv.ParseInt(m[3], 10, 64)
	if err != nil || deadline < band {
		return folded{}, false
	}
	return folded{
		settings: fmt.Sprintf("1 %s -1 0 0", limit),
		counts:   fmt.Sprintf("1 1 0 0 1 %s %d %s", last, deadline, expires),
		id:       id,
		deadline: deadline,
		record:   fmt.Sprintf("h 1 0 %s 0 0 %s", last, who),
	}, true
}

// expand puts in place of a folded semaphore's field, in a reply of inspect.lua,
// what it stands for; with its lease if records.
func expand(reply []any, records bool) []any {
	if len(reply) != 3 || reply[2] != "" {
		return reply
	}
	settings, _ := reply[1].(string)
	f, ok := unfold(settings)
	if !ok {
		return reply
	}
	reply = []any{reply[0], f.settings, f.counts}
	if records {
		reply = append(reply, f.id, strconv.FormatInt(f.deadline, 10), f.record)
	}
	return reply
}
