package look

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// What is stored is specified by the header of transition.lua. A call of that script refuses what
// berth did not write, and heals what is left when one of the two keys was lost; whoever looks is to
// hear of the same.

const (
	century = 3_000_000_000_000 // ms; no deadline is further away
	grain   = 60_000            // ms; the keys' TTL moves in steps of this

	tenant = ";tenant=" // stands between an owner and its tenant
	share  = ";share="  // and this directly in front of it, with the tenant's share
)

// header is what the script tells of the whole semaphore.
type header struct {
	now      int64
	state    string // "": there is none
	settings string // of an older berth
	fields   int64  // of the hash
	members  int64  // of the sorted set
	free     int64  // free slots, of the members
	ends     string // where the hash was lost: the last deadline of the sorted set
}

// begin reads what h says. Its errors are those of a call of Do.
func (a *reading) begin(h header) (err error) {
	snap := &a.snap
	snap.Now = h.now
	switch {
	case h.state == "" && h.fields > 0 && h.settings != "":
		return &protocol.Failure{Kind: protocol.ErrRejected, Detail: protocol.ErrOlder, Err: errors.New("fields without state")}
	case h.state == "" && h.fields > 0:
		return corrupt("hash without state", a.key.State)
	case h.state == "" && h.members == 0:
		return nil
	case strings.HasPrefix(h.state, "3 compact "):
		return a.compact(h)
	case olderCompact.MatchString(h.state):
		return &protocol.Failure{Kind: protocol.ErrRejected, Detail: protocol.ErrOlder, Err: errors.New("a lease of an older layout")}
	case h.state == "":
		snap.Pin = -1
	default:
		if snap.State, err = protocol.ParseState(h.state, h.now); err != nil {
			return err
		}
		a.pausing = strings.HasPrefix(h.state, fmt.Sprintf("3 %d %d 2 ", snap.Declared, snap.Pin))
	}
	snap.Exists = true
	s := &snap.State
	want, free := int64(0), int64(s.Slots-s.Holders)
	if s.Used+s.Waiting+s.Others > 0 {
		want = 1 + int64(s.Slots+2*s.Waiting+s.Others)
	}
	if h.state == "" || h.members != want || free > 0 && h.free != free {
		return a.half(h)
	}
	return nil
}

// compact reads a lease that is alone as the record that it stands for.
func (a *reading) compact(h header) error {
	m := compactForm.FindStringSubmatch(h.state)
	if m == nil || h.fields != 1 || h.members > 0 {
		return corrupt("state", h.state)
	}
	id, token, deadline, expires, limit, ttl, owner := m[1], m[2], m[3], m[4], m[5], m[6], m[7]
	lapses := "1"
	if expires == "0" {
		expires, lapses = number(deadline, grain), "0"
	}
	state, err := protocol.ParseState(fmt.Sprintf("3 %s -1 0 0 1 1 0 0 1 %s %s %s %s 0 -", limit, token, deadline, expires, lapses), h.now)
	if err != nil || state.Next < deadlines || state.Till-h.now > century {
		return corrupt("state", h.state)
	}
	a.snap.State, a.snap.Exists = state, true
	return a.collect(id, deadline, "h 1 0 "+token+" 0 "+ttl+" - "+owner)
}

// compactForm is 3 compact id token deadline expires limit ttl owner label.
var compactForm = regexp.MustCompile(`(?s)^3 compact (\S+) (\d+) (\d+) (\d+) (\d+) (\d+) (\S+ .*)$`)

var olderCompact = regexp.MustCompile(`^[12] compact `)

// number adds to a number that is text.
func number(text string, more int64) string {
	n, _ := strconv.ParseInt(text, 10, 64)
	return strconv.FormatInt(n+more, 10)
}

// half reads what is left where one of the two keys was lost, or both are damaged. What is left tells
// until when somebody may hold. After that nobody is there.
func (a *reading) half(h header) error {
	s := &a.snap.State
	ends := int64(0) // tombstones alone may go
	switch {
	case h.state == "":
		last, err := strconv.ParseFloat(h.ends, 64)
		if err != nil {
			return a.mismatch(h)
		}
		ends = int64(last)
	case h.members > 0:
		return a.mismatch(h)
	case s.Used+s.Waiting > 0 || s.Counts() || a.pausing:
		ends = s.Till
	}
	if left := ends - h.now; left > century {
		return a.mismatch(h)
	} else if left > 0 {
		heals := time.Duration(left) * time.Millisecond
		return &protocol.Failure{Kind: protocol.ErrRejected, Detail: protocol.ErrCorrupt, Heals: heals, Err: errors.New("one key was lost")}
	}
	a.snap.Remnant = ends > 0
	a.snap.State = protocol.State{
		Declared: s.Declared, Pin: s.Pin, Paused: s.Paused && !a.pausing, Changes: s.Changes, Last: s.Last, Rates: s.Rates,
	}
	a.pausing = false
	return nil
}

func (a *reading) mismatch(h header) error {
	return corrupt("state does not match "+a.key.Order(), h.state)
}

// numbers parses numbers of at most 16 digits with spaces between them; false: text is not that.
func numbers(text string, into ...*int64) bool {
	fields := strings.Split(text, " ")
	if len(fields) != len(into) {
		return false
	}
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 54)
		if err != nil {
			return false
		}
		*into[i] = int64(n)
	}
	return true
}

// parseCounted reads what counts for rates, in their order:
//
//	r |grain first last sum ...|...|
func parseCounted(s string, rates []protocol.Rate) (all []Counted, ok bool) {
	rows := strings.Split(strings.TrimPrefix(s, "r |"), "|")
	if len(rows) != len(rates)+1 || rows[len(rates)] != "" {
		return nil, false
	}
	for i, r := range rates {
		if rows[i] == "" {
			continue
		}
		words := strings.Split(rows[i], " ")
		row := make([]int64, len(words))
		for k, word := range words {
			if !numbers(word, &row[k]) {
				return nil, false
			}
		}
		if len(row) < 4 || row[2]-row[1] != int64(len(row)-4) || r.Burst > 0 || row[0] > century || row[2] > century/max(row[0], 1) {
			return nil, false
		}
		for k, sum := range row[3:] {
			if sum > 0 {
				until := (row[1]+int64(k)+1)*row[0] + r.Per.Milliseconds()
				all = append(all, Counted{i, int(sum), until})
			}
		}
	}
	return all, true
}

// parseRecord reads a lease or a waiter:
//
//	h weight slot token ceiling ttl charges owner label
//	w weight costs ticket maxhold ttl beat owner label
func parseRecord(s string) (*Record, bool) {
	const ahead = 7 // kind, numbers and what it costs
	words := strings.SplitN(s, " ", ahead+2)
	if len(words) < ahead+2 {
		return nil, false
	}
	if words[0] == "w" {
		words[2], words[6] = words[6], words[2] // so that the numbers are in one place
	}
	var weight, slot, token, ceiling, ttl int64
	if !numbers(strings.Join(words[1:ahead-1], " "), &weight, &slot, &token, &ceiling, &ttl) {
		return nil, false
	}
	costs, ok := protocol.ParseCharges(words[6])
	if !ok {
		return nil, false
	}
	r := &Record{
		Costs:  costs,
		Weight: int(weight), Slot: int(slot), Token: token, Since: token / 1000, Ceiling: ceiling,
		TTL: time.Duration(min(ttl, century)) * time.Millisecond, Label: words[ahead+1],
	}
	var owner string
	owner, r.Tenant, _ = strings.Cut(words[ahead], tenant)
	if r.Tenant != "" {
		r.Share = 1
		if n := strings.LastIndex(owner, share); n >= 0 {
			r.Share, _ = strconv.Atoi(owner[n+len(share):])
			owner = owner[:n]
		}
	}
	pid, host, _ := strings.Cut(strings.TrimPrefix(owner, ":"), "/")
	r.PID, _ = strconv.Atoi(pid)
	r.Host, r.Client, _ = strings.Cut(host, ";")
	r.Client, r.Extra, _ = strings.Cut(r.Client, ";")
	switch words[0] {
	case "h":
	case "e":
		r.Evicting = true
	case "w":
		r.Token, r.Slot, r.Ceiling = 0, 0, 0
	default:
		return nil, false
	}
	return r, host != ""
}
