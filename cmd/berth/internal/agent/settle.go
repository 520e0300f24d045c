package agent

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/berth-go/berth"
)

// settleField is what a line, or a request, has that says what the permits have cost.
const settleField = "settle"

// settleLine does what a line of the client asks for: {"settle":{"tokens":917}}. Any other line is but
// a sign of life.
func (h *hold) settleLine(line []byte) {
	g, err := object(line)
	if err != nil || g.values[settleField] == nil {
		return
	}
	if reason := h.settle(g.values[settleField]); reason != "" {
		select {
		case h.unsettled <- unsettledLine{"unsettled", reason}:
		default: // one is told already
		}
	}
}

// settle settles the permits, and returns why that is not possible.
func (h *hold) settle(raw json.RawMessage) string {
	costs, reason := parseCosts(raw, 0)
	leases := h.leases.Load()
	switch {
	case reason != "":
		return reason
	case leases == nil:
		return "there is no permit yet"
	}
	var reasons []string
	for _, c := range costs {
		if err := leases.Settle(c.N, c.Unit); err != nil {
			reasons = append(reasons, plain(err))
		}
	}
	return strings.Join(reasons, "; ")
}

// settling is a request to settle a hold, from whoever has no way to write to its connection.
type settling struct {
	id    string
	costs json.RawMessage
}

var settlingFields = []field[settling]{
	{"id", text(berth.MaxName, func(string, int) string { return "" }, func(s *settling, id string) { s.id = id })},
	{settleField, func(s *settling, raw json.RawMessage) string {
		s.costs = raw
		_, reason := parseCosts(raw, 0)
		return reason
	}},
}

// settleHold settles the hold that has an id.
func (a *Agent) settleHold(w http.ResponseWriter, r *http.Request) {
	body, refused := readAll(w, r)
	if refused != nil {
		refused.write(w)
		return
	}
	var s settling
	if refused = parseAll(body, settlingFields, &s); refused != nil {
		refused.write(w)
		return
	}
	held, ok := a.holds.Load(s.id)
	if !ok {
		refusedNotHeld.write(w)
		return
	}
	if reason := held.(*hold).settle(s.costs); reason != "" {
		invalid(reason, nil).write(w)
		return
	}
	answer(w, map[string]string{"event": "settled"}, nil)
}

// readAll reads the body of a request that net/http serves.
func readAll(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, refusedSize
	case err != nil:
		return nil, refusedLate
	}
	return body, nil
}
