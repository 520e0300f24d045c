package berthwatch

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

const (
	// beat is the longest time between two questions whether Redis is there.
	beat = 1300 * time.Millisecond
	// quiet is how long Redis may give no answer before that is taken for an outage. A beat and
	// this are less than three seconds, whatever the pace.
	quiet = 1500 * time.Millisecond
)

// pulse tells whether Redis answers. An answer counts however late it is: a Redis that takes
// five seconds for each request, and answers all of them, is there.
type pulse struct {
	open   map[*request]bool // without an answer
	heard  time.Time         // when the last answer came
	err    error             // why there is none; nil: there is
	silent bool              // err is that there is none
}

// request is a request to Redis.
type request struct {
	sent time.Time
	stop context.CancelFunc
}

// ask makes a request, and notes whether it is answered.
func (s *Sampler) ask(ctx context.Context, send func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &request{sent: time.Now(), stop: stop}
	s.mu.Lock()
	if s.pulse.open == nil {
		s.pulse.open = map[*request]bool{}
	}
	s.pulse.open[r] = true
	s.mu.Unlock()
	err := send(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pulse.open, r)
	switch {
	case answered(err):
		s.heard(r)
	case errors.Is(err, berth.ErrUnreachable) && ctx.Err() == nil && s.pulse.heard.Before(r.sent):
		s.away(err, false)
	}
	return err
}

// answered reports whether Redis said what a request resulted in.
func answered(err error) bool {
	return err == nil || errors.Is(err, berthadmin.ErrNotFound) || errors.Is(err, berth.ErrCorrupt) || errors.Is(err, berth.ErrRefused)
}

// heard notes an answer to r. When it ends an outage, what has waited far longer than r is given
// up: its answer was lost. s.mu is held.
func (s *Sampler) heard(r *request) {
	now := time.Now()
	s.pulse.heard = now
	if s.pulse.err == nil {
		return
	}
	s.pulse.err = nil
	for other := range s.pulse.open {
		if now.Sub(other.sent) > 2*now.Sub(r.sent) {
			other.stop()
		}
	}
	s.tell()
}

// away notes an outage. The first reason for it stays, unless that is silence. s.mu is held.
func (s *Sampler) away(err error, silent bool) {
	if s.pulse.err == nil || s.pulse.silent && !silent {
		s.pulse.err, s.pulse.silent = err, silent
		s.tell()
	}
}

// patience returns until when Redis may be silent, without an outage. There is no such time while
// it has nothing to answer.
func (p *pulse) patience() (until time.Time, waiting bool) {
	for r := range p.open {
		if !waiting || r.sent.Before(until) {
			until, waiting = r.sent, true
		}
	}
	return later(until, p.heard).Add(quiet), waiting
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
