package cli

import (
	"time"

	"github.com/berth-go/berth"
)

// The views are what --json prints: the Inspector's words, with times in
// milliseconds and with that in their names.

type summaryView struct {
	Name         string `json:"name"`
	Limit        int    `json:"limit"`
	Declared     int    `json:"declared"`
	Pinned       bool   `json:"pinned"`
	Paused       bool   `json:"paused"`
	InUse        int    `json:"in_use"`
	Holders      int    `json:"holders"`
	Waiting      int    `json:"waiting"`
	NextExpiryMS int64  `json:"next_expiry_ms"`
	LimitChanges int    `json:"limit_changes"`
}

type holderView struct {
	Lease       string `json:"lease"`
	Label       string `json:"label"`
	Host        string `json:"host"`
	PID         int    `json:"pid"`
	Weight      int    `json:"weight"`
	Slot        int    `json:"slot"`
	Token       int64  `json:"token"`
	HeldMS      int64  `json:"held_ms"`
	ExpiresInMS int64  `json:"expires_in_ms"`
	Evicting    bool   `json:"evicting"`
}

type waiterView struct {
	Request     string `json:"request"`
	Label       string `json:"label"`
	Host        string `json:"host"`
	PID         int    `json:"pid"`
	Weight      int    `json:"weight"`
	Place       int    `json:"place"`
	WaitedMS    int64  `json:"waited_ms"`
	ExpiresInMS int64  `json:"expires_in_ms"`
}

type stateView struct {
	summaryView
	Leases []holderView `json:"leases"`
	Queue  []waiterView `json:"queue"`
}

// viewAll never returns nil: JSON has an empty array for "none".
func viewAll[T, V any](list []T, view func(T) V) []V {
	out := make([]V, 0, len(list))
	for _, v := range list {
		out = append(out, view(v))
	}
	return out
}

func viewSummary(s berth.Summary) summaryView {
	return summaryView{
		s.Name, s.Limit, s.Declared, s.Pinned, s.Paused, s.InUse, s.Holders, s.Waiting,
		ms(s.NextExpiry), s.LimitChanges,
	}
}

func viewHolder(h berth.Holder) holderView {
	return holderView{
		h.ID, h.Label, h.Host, h.PID, h.Weight, h.Slot, h.Token,
		ms(h.Held), ms(h.ExpiresIn), h.Evicting,
	}
}

func viewWaiter(w berth.Waiter) waiterView {
	return waiterView{w.ID, w.Label, w.Host, w.PID, w.Weight, w.Place + 1, ms(w.Waited), ms(w.ExpiresIn)}
}

func viewState(s *berth.State) stateView {
	return stateView{viewSummary(s.Summary), viewAll(s.Leases, viewHolder), viewAll(s.Queue, viewWaiter)}
}

func ms(d time.Duration) int64 { return d.Milliseconds() }
