package agent

import (
	"strings"
	"testing"
)

// TestChunkedRequestLastsAsLongAsItsBody: that is how curl and HTTP libraries close their half.
func TestChunkedRequestLastsAsLongAsItsBody(t *testing.T) {
	each(t, func(w *world) {
		const start = "POST /v1/hold HTTP/1.1\r\nHost: agent\r\nTransfer-Encoding: chunked\r\n\r\n"
		w.inTime(func() (late bool) {
			p, late := w.beats(start+"1d\r\n{\"name\":\"s\",\"beat_ms\":2000}\n\n\r\n", "1\r\n\n\r\n")
			if late {
				return true
			}
			_, err := p.conn.Write([]byte("0\r\n\r\n"))
			w.Must(err)
			p.wants("released")
			w.Idle()
			return false
		})
	})
}

// TestCompleteBodyIsAnswered in whatever pieces it comes, and whether it ends with a line or not.
func TestCompleteBodyIsAnswered(t *testing.T) {
	each(t, func(w *world) {
		const start = "POST /v1/hold HTTP/1.1\r\nHost: agent\r\nTransfer-Encoding: chunked\r\n\r\n"
		for text, end := range map[string]string{
			start + "c\r\n{\"name\":\"s\"}\r\n0\r\n\r\n":               "granted",
			start + "5\r\n{\"nam\r\n7\r\ne\":\"s\"}\r\n0\r\n\r\n":      "granted",
			start + "c\r\n{\"name\":\"s\"}\r\n0\r\nTrailer: x\r\n\r\n": "granted",
			start + "b\r\n{\"name\":1}\n\r\n0\r\n\r\n":                 "refused",
			start + "0\r\n\r\n": "refused",
		} {
			p := w.insists(text, end)
			if end == "granted" {
				w.untilHeld(1) // for as long as the connection is open
				p.conn.Close()
				w.untilHeld(0)
			}
		}
		w.holds(1)
		p := w.insists(start+"d\r\n{\"name\":\"s\"}\n\r\n", "queued")
		_, err := p.conn.Write([]byte("0\r\n\r\n"))
		w.Must(err)
		if e := p.wants("refused"); e.Status != 400 || e.Error != "gone" || !strings.Contains(e.Message, "keep it open") {
			w.Errorf("a body that ends in the queue is told %+v", e)
		}
		w.UntilWaiting(0)
	})
}
