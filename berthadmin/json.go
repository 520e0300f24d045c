package berthadmin

import (
	"encoding/json"
	"time"

	"github.com/berth-go/berth"
)

// millis is a duration as a number of milliseconds.
type millis time.Duration

// MarshalJSON implements json.Marshaler.
func (m millis) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(m).Milliseconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (m *millis) UnmarshalJSON(b []byte) error {
	var n int64
	err := json.Unmarshal(b, &n)
	*m = millis(time.Duration(n) * time.Millisecond)
	return err
}

// permits is a limit: null where there is none, because berth.NoLimit is no number to count with.
type permits int

// MarshalJSON implements json.Marshaler.
func (p permits) MarshalJSON() ([]byte, error) {
	if p == berth.NoLimit {
		return []byte("null"), nil
	}
	return json.Marshal(int(p))
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *permits) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*p = berth.NoLimit
		return nil
	}
	return json.Unmarshal(b, (*int)(p))
}

// The JSON forms have a type's own fields, and its durations.
type (
	plainSummary Summary
	plainHolder  Holder
	plainWaiter  Waiter
	plainRate    Rate

	summaryJSON struct {
		*plainSummary
		Limit      permits `json:"limit"`
		Declared   permits `json:"declared"`
		OldestWait millis  `json:"oldest_wait_ms"` // how long the first in the queue has waited
		NextExpiry millis  `json:"next_expiry_ms"` // until the first lease expires unless renewed; 0: there is none, or it is not known
		RetryAfter millis  `json:"retry_after_ms"` // how long the rates keep out the first in the queue, or a cost of 1
		PausedFor  millis  `json:"paused_for_ms"`  // until a pause ends by itself
	}
	stateJSON struct {
		summaryJSON
		Leases []Holder `json:"leases"`
		Queue  []Waiter `json:"queue"`
	}
	holderJSON struct {
		*plainHolder
		TTL       millis `json:"ttl_ms"`
		Held      millis `json:"held_ms"`
		ExpiresIn millis `json:"expires_in_ms"`
		Until     millis `json:"until_ms"` // until its MaxHold ends it; 0: it has none
	}
	waiterJSON struct {
		*plainWaiter
		Waited    millis `json:"waited_ms"`
		ExpiresIn millis `json:"expires_in_ms"`
	}
	rateJSON struct {
		*plainRate
		Per millis `json:"per_ms"`
	}
)

func newSummaryJSON(s *Summary) summaryJSON {
	return summaryJSON{(*plainSummary)(s), permits(s.Limit), permits(s.Declared), millis(s.OldestWait), millis(s.NextExpiry), millis(s.RetryAfter), millis(s.PausedFor)}
}

// fill sets the fields of s that have a form of their own.
func (v *summaryJSON) fill(s *Summary) {
	s.Limit, s.Declared = int(v.Limit), int(v.Declared)
	s.OldestWait, s.NextExpiry = time.Duration(v.OldestWait), time.Duration(v.NextExpiry)
	s.RetryAfter, s.PausedFor = time.Duration(v.RetryAfter), time.Duration(v.PausedFor)
}

// MarshalJSON implements json.Marshaler.
func (s Summary) MarshalJSON() ([]byte, error) {
	return json.Marshal(newSummaryJSON(&s))
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Summary) UnmarshalJSON(b []byte) error {
	v := summaryJSON{plainSummary: (*plainSummary)(s)}
	err := json.Unmarshal(b, &v)
	v.fill(s)
	return err
}

// MarshalJSON implements json.Marshaler.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(stateJSON{newSummaryJSON(&s.Summary), s.Leases, s.Queue})
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *State) UnmarshalJSON(b []byte) error {
	v := stateJSON{summaryJSON: summaryJSON{plainSummary: (*plainSummary)(&s.Summary)}}
	err := json.Unmarshal(b, &v)
	v.fill(&s.Summary)
	s.Leases, s.Queue = v.Leases, v.Queue
	return err
}

// MarshalJSON implements json.Marshaler.
func (h Holder) MarshalJSON() ([]byte, error) {
	return json.Marshal(holderJSON{(*plainHolder)(&h), millis(h.TTL), millis(h.Held), millis(h.ExpiresIn), millis(h.Until)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Holder) UnmarshalJSON(b []byte) error {
	v := holderJSON{plainHolder: (*plainHolder)(h)}
	err := json.Unmarshal(b, &v)
	h.TTL, h.Held = time.Duration(v.TTL), time.Duration(v.Held)
	h.ExpiresIn, h.Until = time.Duration(v.ExpiresIn), time.Duration(v.Until)
	return err
}

// MarshalJSON implements json.Marshaler.
func (w Waiter) MarshalJSON() ([]byte, error) {
	return json.Marshal(waiterJSON{(*plainWaiter)(&w), millis(w.Waited), millis(w.ExpiresIn)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Waiter) UnmarshalJSON(b []byte) error {
	v := waiterJSON{plainWaiter: (*plainWaiter)(w)}
	err := json.Unmarshal(b, &v)
	w.Waited, w.ExpiresIn = time.Duration(v.Waited), time.Duration(v.ExpiresIn)
	return err
}

// MarshalJSON implements json.Marshaler.
func (r Rate) MarshalJSON() ([]byte, error) {
	return json.Marshal(rateJSON{(*plainRate)(&r), millis(r.Per)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rate) UnmarshalJSON(b []byte) error {
	v := rateJSON{plainRate: (*plainRate)(r)}
	err := json.Unmarshal(b, &v)
	r.Per = time.Duration(v.Per)
	return err
}
