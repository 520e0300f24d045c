package berthhttp

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
)

// obey pauses the semaphores of the request that are to be, if the answer says when to come back.
// It does so before the caller has the answer, so that the caller's next request finds the pause.
func (p *permit) obey(ctx context.Context, resp *http.Response) {
	l := p.limiter
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return
	}
	d := comeBack(resp.Header, time.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.answerWithin)
	defer cancel()
	for i, k := range p.asks {
		d := min(d, l.rules[i].obey)
		if d < berth.MinTTL {
			continue
		}
		if err := k.sem.Cooldown(ctx, d); err == nil {
			l.logger.Info("berthhttp: paused for all programs, as the answer asks", "semaphore", k.name, "status", resp.StatusCode, "pause", d)
		} else {
			l.logger.Warn("berthhttp: the answer said when to come back, but others could not be told", "semaphore", k.name, "error", err)
		}
	}
}

// comeBack returns in how long a Retry-After says to come back: 0 if there is none, or it cannot
// be read. A date counts from the answer's own, so that clocks need not agree.
func comeBack(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return max(at.Sub(now), 0)
}
