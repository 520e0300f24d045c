package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// frame is one complete RESP2 or RESP3 value: a request, a reply or a push.
type frame struct {
	kind byte     // its first byte, for example '*' for an array
	raw  []byte   // as it was on the wire
	text []string // its strings in order, however nested
}

// readFrame reads one whole value. Its error is the connection's, or says that the input is
// not RESP.
func readFrame(r *bufio.Reader) (frame, error) {
	var f frame
	if err := f.read(r); err != nil {
		return frame{}, err
	}
	f.kind = f.raw[0]
	return f, nil
}

func (f *frame) read(r *bufio.Reader) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	f.raw = append(f.raw, line...)
	body := strings.TrimRight(string(line[1:]), "\r\n")
	switch line[0] {
	case '$', '=', '!': // strings that state their length
		return f.readBulk(r, body)
	case '*', '~', '>':
		return f.readItems(r, body, 1, 0)
	case '%':
		return f.readItems(r, body, 2, 0)
	case '|': // attributes, which belong to the value that follows
		return f.readItems(r, body, 2, 1)
	case '+', '-', ':', ',', '#', '(', '_':
		f.text = append(f.text, body)
		return nil
	}
	return fmt.Errorf("redistest: %q does not begin a RESP value", line)
}

func (f *frame) readBulk(r *bufio.Reader, length string) error {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 { // -1: no string
		return err
	}
	start := len(f.raw)
	f.raw = append(f.raw, make([]byte, n+2)...)
	if _, err := io.ReadFull(r, f.raw[start:]); err != nil {
		return err
	}
	f.text = append(f.text, string(f.raw[start:start+n]))
	return nil
}

func (f *frame) readItems(r *bufio.Reader, count string, each, more int) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 { // -1: no array
		return err
	}
	for range n*each + more {
		if err := f.read(r); err != nil {
			return err
		}
	}
	return nil
}

// isPush reports whether f is a message rather than a reply. RESP3 marks messages; in RESP2
// only the first word tells, on a connection that has subscribed.
func (f *frame) isPush(subscribed bool) bool {
	if f.kind == '>' {
		return true
	}
	return subscribed && f.kind == '*' && len(f.text) > 0 && pushWords[f.text[0]]
}

var pushWords = map[string]bool{
	"message": true, "pmessage": true, "smessage": true,
	"subscribe": true, "psubscribe": true, "ssubscribe": true,
	"unsubscribe": true, "punsubscribe": true, "sunsubscribe": true,
}

// answeredByPush reports whether a command is confirmed by messages, one for each channel,
// instead of one reply.
func answeredByPush(c Command) bool {
	return pushWords[strings.ToLower(c.Name())]
}
