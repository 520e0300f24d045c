package protocol

import (
	"iter"
	"strconv"
	"strings"
	"time"
)

// MostPermits bounds the limit that a message may name. Larger ones are not believed.
const MostPermits = 1 << 30

// Note is a line of a message: something has happened to an id. It is a hint, which
// anybody may have sent, and a reason to ask the server.
type Note struct {
	ID      string
	Granted bool // by a hand-off, with Slot, Token and Limit
	Slot    int
	Token   int64
	Limit   int  // in force
	Next    bool // it is the head of the queue, which is to look after Rest
	Rest    time.Duration
	Reason  Reason // why the id has ended; Unknown: it has not, or the line says something else
}

// ReadMessage returns the key of the semaphore that a message is about, and its lines. A
// line that this package does not know, that has more on it, or a number that cannot be,
// says no more than its id.
func ReadMessage(payload string) (state string, notes iter.Seq[Note]) {
	state, lines, _ := strings.Cut(payload, "\n")
	return state, func(yield func(Note) bool) {
		for line := range strings.SplitSeq(lines, "\n") {
			if n, ok := readNote(line); ok && !yield(n) {
				return
			}
		}
	}
}

// readNote reads one line: "g id slot token limit", "n id rest", "x id reason", or another that
// has an id in its second place.
func readNote(line string) (n Note, ok bool) {
	words := strings.Split(line, " ")
	if len(words) < 2 || words[1] == "" {
		return n, false
	}
	n.ID = words[1]
	switch {
	case words[0] == "g" && len(words) == 5:
		slot, token, limit := within(words[2], MostPermits-1), within(words[3], front-1), within(words[4], MostPermits)
		if slot >= 0 && slot < limit && token > 0 {
			n.Granted, n.Slot, n.Token, n.Limit = true, int(slot), token, int(limit)
		}
	case words[0] == "n" && len(words) == 3:
		if rest := within(words[2], longest); rest >= 0 {
			n.Next, n.Rest = true, time.Duration(rest)*time.Millisecond
		}
	case words[0] == "x" && len(words) == 3:
		n.Reason = Reason(max(0, within(words[2], int64(AskedToStop))))
	}
	return n, true
}

// within parses a number from 0 to most; what is none is -1.
func within(s string, most int64) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		return -1
	}
	return n
}
