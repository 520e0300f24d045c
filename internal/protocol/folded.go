package protocol

import (
	"fmt"
	"slices"
	"strings"
)

// band is the least score of a deadline, BAND in transition/general.lua.
const band = 1 << 32

// folded is what the only field of a folded semaphore stands for. It belongs to
// one lease, and nobody waits: see transition/folded.lua.
type folded struct {
	settings, counts string
	id               string
	deadline, record string
}

// unfold reads the settings of a folded semaphore:
//
//	1 ID last deadline expires limit used owner label
//
// Of another's it reports false.
func unfold(settings string) (folded, bool) {
	part := strings.SplitN(settings, " ", 9)
	if len(part) < 9 {
		return folded{}, false
	}
	id, last, deadline, expires, limit, used, owner, label := part[1], part[2], part[3], part[4], part[5], part[6], part[7], part[8]
	n, ok := numbers(strings.Join(part[2:7], " "), 5)
	if !ok || slices.Min(n) < 0 || n[1] < band || part[0] != "1" || id == "" || owner == "" {
		return folded{}, false
	}
	return folded{
		settings: fmt.Sprintf("1 %s -1 0 0", limit),
		counts:   fmt.Sprintf("%s 1 0 0 1 %s %s %s", used, last, deadline, expires),
		id:       id,
		deadline: deadline,
		record:   fmt.Sprintf("h %s 0 %s 0 0 %s %s", used, last, owner, label),
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
		reply = append(reply, f.id, f.deadline, f.record)
	}
	return reply
}
