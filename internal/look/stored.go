package look

import (
	"cmp"
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
	case strings.HasPrefix(h.state, "1 compact "):
		return a.compact(h)
	case h.state == "":
		snap.Pin = -1
	default:
		if snap.State, err = protocol.ParseState(h.state, h.now); err != nil {
			return err
		}
		a.pausing = strings.HasPrefix(h.state, fmt.Sprintf("2 %d %d 2 ", snap.Declared, snap.Pin))
	}
	snap.Exists = true
	s := &snap.State
	want, free := int64(0), int64(s.Slots-s.Holders)
	if s.Used+s.Waiting+s.Marks > 0 {
		want = 1 + int64(s.Slots+2*s.Waiting+s.Marks)
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
	id, token, deadline, expires, limit, terms := m[1], m[2], m[3], m[4], m[5], m[6]
	lapses := "1"
	if expires == "0" {
		expires, lapses = number(deadline, grain), "0"
	}
	state, err := protocol.ParseState(fmt.Sprintf("1 %s -1 0 0 1 1 0 0 1 %s %s %s %s", limit, token, deadline, expires, lapses), h.now)
	if err != nil || state.Next < deadlines || state.Till-h.now > century {
		return corrupt("state", h.state)
	}
	a.snap.State, a.snap.Exists = state, true
	return a.collect(id, deadline, "h 1 0 "+token+" 0 "+terms)
}

// compactForm is 1 compact id token deadline expires HEAD.
var compactForm = regexp.MustCompile(`(?s)^1 compact (\S+) (\d+) (\d+) (\d+) A[01] 1 0 (\d+) \d+ \d+ \d+ (\d+ \S+ .*)$`)

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
	case s.Used+s.Waiting+s.Spent > 0 || a.pausing:
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
		Declared: s.Declared, Pin: s.Pin, Paused: s.Paused && !a.pausing, Changes: s.Changes, Last: s.Last, Rate: s.Rate,
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

// parseCounted reads what counts for the rate:
//
//	r sum until
func parseCounted(s string) (c Counted, ok bool) {
	var sum int64
	ok = numbers(strings.TrimPrefix(s, "r "), &sum, &c.Until)
	c.Sum = int(sum)
	return c, ok
}

// parseRecord reads a lease or a waiter:
//
//	h weight slot token ceiling ttl owner label
//	w weight cost ticket maxhold ttl owner label
func parseRecord(s string) (*Record, bool) {
	const ahead = 6 // kind and numbers
	words := strings.SplitN(s, " ", ahead+2)
	if len(words) < ahead+2 {
		return nil, false
	}
	var weight, slot, token, ceiling, ttl int64
	if !numbers(strings.Join(words[1:ahead], " "), &weight, &slot, &token, &ceiling, &ttl) {
		return nil, false
	}
	r := &Record{
		Weight: int(weight), Slot: int(slot), Token: token, Since: token / 1000, Ceiling: ceiling,
		TTL: time.Duration(min(ttl, century)) * time.Millisecond, Label: words[ahead+1],
	}
	var owner string
	owner, r.Tenant, _ = strings.Cut(words[ahead], tenant)
	pid, host, _ := strings.Cut(strings.TrimPrefix(owner, ":"), "/")
	r.PID, _ = strconv.Atoi(pid)
	r.Host, r.Client, _ = strings.Cut(host, ";")
	r.Client, r.Extra, _ = strings.Cut(r.Client, ";")
	switch words[0] {
	case "h":
	case "e":
		r.Evicting = true
	case "w":
		r.Cost = cmp.Or(r.Slot, r.Weight)
		r.Token, r.Slot, r.Ceiling = 0, 0, 0
	default:
		return nil, false
	}
	return r, host != ""
}
