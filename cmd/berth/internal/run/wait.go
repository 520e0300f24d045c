package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/words"
)

const (
	// grace is how long after the end of the wait the library may take to return, and after a
	// signal if Redis is away.
	grace = 200 * time.Millisecond
	// leastPause and mostPause bound the pause before Redis is asked again.
	leastPause = 50 * time.Millisecond
	mostPause  = time.Second
	// leastSilence is how long Redis must have been silent at the end of a short wait, for
	// that to be the reason.
	leastSilence = 250 * time.Millisecond
	// headStart is how much earlier Redis is asked for a last sign of life.
	headStart = 10 * time.Millisecond
)

type acquired struct {
	lease *berth.Lease
	err   error
}

// Wait waits for the permit, and leaves the queue at the first signal. It returns when
// cfg.Wait is over, whether Redis answers or not. Its errors have an exit code.
func Wait(cfg Config) (*berth.Lease, error) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var nearly, over <-chan time.Time
	if cfg.Wait > 0 {
		ctx, leave = context.WithTimeout(ctx, cfg.Wait)
		defer leave()
		nearly = time.After(cfg.Wait - Silence(cfg.Wait) - headStart)
		over = time.After(cfg.Wait + grace)
	}
	asking, enough := context.WithCancel(context.Background())
	defer enough()
	cfg.Notices.hold() // until Redis is known to serve the request
	places := make(chan berth.Place, 1)
	patience := firstWord
	if cfg.Once {
		patience = 0
	}
	refused := cfg.Health.Refusals(asking, patience) // before anything is asked, or the first would be missed
	got := make(chan acquired, 1)
	go func() {
		lease, err := cfg.insist(ctx, latest(places))
		got <- acquired{lease, err}
	}()
	var whys <-chan string // of the last setting: what is still told about an older one is not read
	line := &line{cfg: cfg, since: time.Now()}
	defer cfg.Notices.Erase()
	tick := line.ticks()
	for {
		select {
		case a := <-got:
			return cfg.outcome(a, line)
		case <-nearly: // or nobody would know whether Redis is there: the queue is asked for only now and then
			go func() { _ = cfg.Ping(asking) }() // Health sees what comes of it
		case <-over:
			return cfg.outcome(acquired{err: context.DeadlineExceeded}, line) // ctx may be late to learn of it
		case err := <-cfg.Health.Foreign():
			return nil, &exit.Error{Code: exit.Unavailable, Err: err}
		case err := <-refused: // the library would go on asking
			if cfg.Once || cfg.Wait == 0 && !cfg.Patient {
				return nil, cfg.refusedBy(err)
			}
			line.refused(err)
		case place := <-places:
			if line.see(place) {
				whys = cfg.operator(asking, place)
			}
			refused = nil // who stands in the queue outlasts it
			line.served()
			line.draw()
		case line.why = <-whys:
			line.draw()
		case <-tick:
			line.draw()
		case sig := <-cfg.Signals:
			leave()
			return nil, cfg.left(got, sig)
		}
	}
}

// Silence is how long Redis must have been silent for that to be why a wait of this length has ended.
func Silence(wait time.Duration) time.Duration { return min(max(wait/4, leastSilence), silence) }

// insist acquires. If the user has set a time to wait, it outlasts an outage of Redis within
// that; otherwise it fails if Redis cannot be reached at the beginning.
func (cfg Config) insist(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error) {
	get := func() (*berth.Lease, error) { return cfg.Acquire(ctx, queued) }
	if cfg.Patient || cfg.Wait > 0 && !cfg.Once {
		return Insist(ctx, get)
	}
	return get()
}

// Insist calls get, which acquires, again and again until ctx ends, while Redis cannot be reached, is
// not ready, or refuses all requests.
func Insist(ctx context.Context, get func() (*berth.Lease, error)) (*berth.Lease, error) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		lease, err := get()
		if err == nil || !errors.Is(err, berth.ErrUnreachable) && !notReady(err) && protocol.Lasting(err) == nil {
			return lease, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// operator finds out who paused or pinned the semaphore. The channel has room for the answer.
func (cfg Config) operator(ctx context.Context, place berth.Place) <-chan string {
	told := make(chan string, 1)
	if cfg.Why != nil {
		go func() { told <- cfg.Why(ctx, place) }()
	}
	return told
}

// latest returns a callback that keeps the newest place in the channel, which has room for
// one, and never blocks.
func latest(places chan berth.Place) func(berth.Place) {
	return func(p berth.Place) {
		for {
			select {
			case places <- p:
				return
			case <-places:
			}
		}
	}
}

// left gives back a permit that was granted just as the signal came, and lets the library leave
// the queue. A second signal does not wait for that, nor for a Redis that is known to be away: then
// the permit and the place are free within the TTL.
func (cfg Config) left(got <-chan acquired, sig os.Signal) error {
	var away <-chan time.Time
	if since, _ := cfg.Health.Outage(); !since.IsZero() {
		away = time.After(grace)
	}
	select {
	case a := <-got:
		if a.lease != nil {
			abandon(a.lease)
		}
	case <-cfg.Signals:
	case <-away:
	}
	return exit.Signal(job.Number(sig))
}

// outcome translates the result of the library for the command line.
func (cfg Config) outcome(a acquired, line *line) (*berth.Lease, error) {
	busy, isBusy := errors.AsType[*berth.BusyError](a.err)
	switch err := a.err; {
	case err == nil:
		cfg.Notices.release(false)
		return a.lease, nil
	case errors.Is(err, context.DeadlineExceeded):
		failure, isFailure := errors.AsType[*protocol.Failure](err)
		if why := cfg.unanswered(line.since); why != nil {
			return nil, why
		}
		if isFailure && errors.Is(err, berth.ErrRefused) { // to the last, and it never was in the queue
			return nil, cfg.refusedBy(failure)
		}
		if line.refusal != nil { // the library is late to return
			return nil, cfg.refusedBy(line.refusal)
		}
		return nil, cfg.refused(timedOut(cfg, line))
	case isBusy:
		return nil, cfg.refused(busyText(cfg, busy))
	case errors.Is(err, berth.ErrEvicted): // told in any case: the code alone says something else
		return nil, exit.Refusal(cfg.NotAcquired, fmt.Errorf("%q: no permit: an operator took its place in the queue away", cfg.Name))
	case exit.Of(err) == exit.NotAcquired: // too heavy: waiting would not have helped
		return nil, exit.Refusal(cfg.NotAcquired, err)
	default:
		return nil, err
	}
}

// unanswered returns why Redis has not answered, if that is why the wait ended. After a very
// short wait Redis may not have had the time for its first answer.
func (cfg Config) unanswered(since time.Time) error {
	if left := time.Until(since.Add(silence)); left > 0 && !cfg.Health.Answered() {
		ctx, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		_ = cfg.Ping(ctx) // Health sees what comes of it
	}
	start, why := cfg.Health.Silent(Silence(cfg.Wait))
	switch {
	case !cfg.Health.Answered():
		start, why = since, cmp.Or(why, errSilent)
	case start.IsZero():
		return nil
	}
	return &exit.Error{Code: exit.Unavailable, Err: Unanswered(start, why)}
}

// refusedBy is the error of a wait that Redis did not let into the queue.
func (cfg Config) refusedBy(why error) error {
	return exit.Errorf(exit.Unavailable, "redis refused: semaphore %q: %w", cfg.Name, why)
}

// refused is the error of a wait without a permit. Its code tells everything, so a quiet run
// prints nothing.
func (cfg Config) refused(text string) error {
	if cfg.Quiet {
		return exit.Code(cfg.NotAcquired)
	}
	return exit.Refusal(cfg.NotAcquired, errors.New(text))
}

// busyText words the library's refusal for a shell user.
func busyText(cfg Config, busy *berth.BusyError) string {
	what := "no permit"
	switch {
	case busy.QueueFull:
		what = "the queue is full"
		if busy.Tenant != "" {
			what += fmt.Sprintf(" for tenant %q", busy.Tenant)
		}
	case busy.FailedEarly:
		what = fmt.Sprintf("no permit within %v", cfg.Wait)
	}
	if busy.Paused {
		what += ", it is paused"
	}
	text := fmt.Sprintf("%q: %s: %s%s, %d waiting", busy.Name, what, screen.InUse(&busy.Status), cfg.needs(), busy.Waiting)
	text += screen.Spent(&busy.Status)
	if busy.RetryAfter > 0 {
		text += ", room in " + screen.Age(busy.RetryAfter)
	}
	return text
}

func timedOut(cfg Config, line *line) string {
	text := fmt.Sprintf("no permit of %q within %v", cfg.Name, cfg.Wait)
	p := line.place
	switch {
	case p == nil:
		return text
	case p.Paused:
		return fmt.Sprintf("%s: %s; %s%s", text, line.operator("paused"), screen.InUse(&p.Status), cfg.needs())
	case p.Pinned:
		return fmt.Sprintf("%s: %d in use, limit %s%s, %s; %d ahead in the queue%s", text, p.InUse, words.Limit(p.Limit), cfg.needs(), line.operator("pinned"), p.Ahead, line.spent(time.Now()))
	}
	return fmt.Sprintf("%s: %s%s, %d ahead in the queue%s", text, screen.InUse(&p.Status), cfg.needs(), p.Ahead, line.spent(time.Now()))
}

// needs tells why a permit may be missing although not all are in use.
func (cfg Config) needs() string {
	if cfg.Weight == 1 {
		return ""
	}
	return fmt.Sprintf(", needs %d", cfg.Weight)
}

// trimmed returns an error's text without the library's name in front.
func trimmed(err error) string { return strings.TrimPrefix(err.Error(), "berth: ") }
