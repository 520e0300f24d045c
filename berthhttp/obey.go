package berthhttp

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// answerWaits is how long an answer waits at most until Redis knows of the pause that it asks for.
const answerWaits = 100 * time.Millisecond

// obey pauses the semaphores of the request that are to be, if the answer says when to come back.
// If Redis answers promptly it does so before the caller has the answer, so that whatever the caller
// does next finds the pause. Else the answer does not wait for it, but the next request of this
// program does (see await).
func (l *limiter) obey(ctx context.Context, asks []gate.Ask, resp *http.Response) {
	var told []<-chan struct{}
	for i, k := range asks {
		rule := &l.rules[i]
		if rule.obey == 0 {
			continue
		}
		if d := min(l.comeBack(rule, resp), rule.obey); d >= berth.MinTTL {
			told = append(told, l.pause(context.WithoutCancel(ctx), k, d, resp.StatusCode))
		}
	}
	if len(told) == 0 {
		return
	}
	timeout := time.NewTimer(answerWaits)
	defer timeout.Stop()
	for _, one := range told {
		select {
		case <-one:
		case <-timeout.C:
			return
		}
	}
}

// comeBack is in how long an answer says to come back; 0: it does not.
func (l *limiter) comeBack(r *rule, resp *http.Response) time.Duration {
	if r.comeBack != nil {
		return r.comeBack(resp)
	}
	if !slices.Contains(backOff, resp.StatusCode) {
		return 0
	}
	d, unread := comeBack(resp.Header, time.Now())
	if unread != "" && l.unread.CompareAndSwap(false, true) {
		l.Logger.Warn("berthhttp: an answer says when to come back, in no known form, and is not obeyed; further ones are not logged",
			"limit", r.Name, "status", resp.StatusCode, "text", unread)
	}
	return d
}

// pauses are what answers have asked for, until it is over.
type pauses struct {
	mu   sync.Mutex
	of   map[string]*pause // guarded by mu; by the semaphore's name
	mute bool              // guarded by mu; Redis could not be told of the last one
}

// pause is that of one semaphore.
type pause struct {
	until time.Time
	told  chan struct{} // closed when Redis knows of it, or could not be told
}

// pause pauses a semaphore for all programs, and returns a channel that is closed when Redis was
// told. An answer that asks for no more than an earlier one is told by that.
func (l *limiter) pause(ctx context.Context, k gate.Ask, d time.Duration, status int) <-chan struct{} {
	p := &l.pauses
	next := &pause{until: time.Now().Add(d), told: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.of[k.Name]
	if last != nil && !next.until.After(last.until) {
		return last.told
	}
	if p.of == nil {
		p.of = map[string]*pause{}
	}
	p.of[k.Name] = next
	go func() {
		defer close(next.told)
		ctx, cancel := context.WithTimeout(ctx, l.AnswerWithin)
		defer cancel()
		err := k.Sem.Cooldown(ctx, d)
		failed := p.failed(err)
		switch log := l.Logger.With("semaphore", k.Name, "status", status, "pause", d); {
		case failed:
			log.Warn("berthhttp: the answer said when to come back, but the pause could not be set", "error", err)
		case err == nil && last == nil:
			log.Info("berthhttp: paused for all programs, as the answer asks")
		}
		if err != nil {
			p.forget(k.Name, next)
			return
		}
		time.AfterFunc(time.Until(next.until), func() { p.forget(k.Name, next) })
	}()
	return next.told
}

// failed notes what became of a pause, and reports whether that is to be told: the first of several
// failures in a row.
func (p *pauses) failed(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := err != nil && !p.mute
	p.mute = err != nil
	return first
}

// forget removes a pause that is over, unless another has replaced it.
func (p *pauses) forget(name string, over *pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[name] == over {
		delete(p.of, name)
	}
}

// await waits until Redis knows of the pause that an answer to this program has asked for, or could
// not be told, or until ctx ends.
func (p *pauses) await(ctx context.Context, name string) {
	p.mu.Lock()
	last := p.of[name]
	p.mu.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last.told:
	case <-ctx.Done():
	}
}
