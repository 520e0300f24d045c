package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/child"
)

// Some scenarios kill a holder, or stop and continue it. This takes a process instead of a
// goroutine. A line of input tells the process to finish; the end of its input ends it.

// holderTimeout bounds what a holder process may take to report.
const holderTimeout = time.Minute

// step is how long a holder works before it checks again whether it may go on.
const step = 5 * time.Millisecond

// order tells a holder process what to do.
type order struct {
	URL       string
	Algorithm string
	Setup     algo.Setup
	Poll      time.Duration
	Work      time.Duration // with the permit, after the next line of input
	// DieAfter kills the process when this many replies of its acquire have arrived;
	// 0: never.
	DieAfter int
}

// report is a message of a holder process. Times are those of the monotonic clock.
type report struct {
	Granted bool          // it has the permit now; otherwise it is done
	Asked   time.Duration // when it asked for the permit
	At      time.Duration
	Until   time.Duration // until when it knew it could trust the permit; 0: unknown
	Told    bool          // it was told of its loss
	Held    bool          // its release said that it was held until then
	Error   string
}

// Role is the role of a holder process.
const Role = "holder"

// hire starts a holder process, which works from its grant until it is told to finish,
// and for d after that.
func (s *stage) hire(d time.Duration, dieAfter int) (*child.Process, error) {
	p, err := child.Again(Role, order{
		URL: s.env.URL, Algorithm: s.alg.Key, Setup: s.setup(nil, 0), Poll: s.env.Poll, Work: d, DieAfter: dieAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start a holder process: %w", err)
	}
	return p, nil
}

// next returns the next report of a holder process.
func next(holder *child.Process) (r report, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), holderTimeout)
	defer cancel()
	if err := holder.Hear(ctx, &r); err != nil {
		return r, fmt.Errorf("a holder process does not report: %w", err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("a holder process failed: %s", r.Error)
	}
	return r, nil
}

// Hold is the main function of a holder process.
func Hold(ctx context.Context, text []byte, stdin io.Reader, stdout io.Writer) error {
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("a holder needs an order: %w", err)
	}
	in := json.NewDecoder(stdin)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	finish := make(chan struct{})
	go func() {
		defer cancel()
		if in.Decode(&struct{}{}) == nil {
			close(finish)
			_, _ = io.Copy(io.Discard, stdin)
		}
	}()
	out := json.NewEncoder(stdout)
	if err := hold(ctx, o, finish, out); err != nil && !errors.Is(err, errOver) {
		return out.Encode(report{Error: err.Error(), At: monotonic()})
	}
	return nil
}

func hold(ctx context.Context, o order, finish <-chan struct{}, out *json.Encoder) error {
	c, err := o.open()
	if err != nil {
		return err
	}
	defer c.end()
	poll := func() time.Duration { return o.Poll }
	// A process that is to die uses the semaphore once before, so that its connection and
	// scripts are ready and it counts the replies of the acquire only.
	if o.DieAfter > 0 {
		p, err := obtain(ctx, c, poll)
		if err != nil {
			return err
		}
		if _, err := release(ctx, p); err != nil {
			return err
		}
		c.tap.OnReply(o.DieAfter, func() {
			_ = out.Encode(report{At: monotonic()}) // its last words
			_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
		})
	}
	asked := monotonic()
	p, err := obtain(ctx, c, poll)
	if err != nil {
		return err
	}
	if err := out.Encode(report{Granted: true, Asked: asked, At: monotonic()}); err != nil {
		return err
	}
	end := work(ctx, p, finish, o.Work)
	if !end.Told {
		end.At = monotonic()
		if end.Held, err = release(ctx, p); err != nil {
			return err
		}
	}
	return out.Encode(end)
}

func (o order) open() (*client, error) {
	connect, err := Connector(o.URL)
	if err != nil {
		return nil, err
	}
	for _, alg := range algo.All() {
		if alg.Key == o.Algorithm {
			return newClient(connect(), alg, o.Setup)
		}
	}
	return nil, fmt.Errorf("unknown algorithm %q", o.Algorithm)
}

// work works in small steps, checking the permit before each, until finish is closed and
// for d after that. The process does not notice if it is stopped meanwhile.
func work(ctx context.Context, p *algo.Permit, finish <-chan struct{}, d time.Duration) report {
	var until time.Time
	for left := d / step; left > 0; {
		if !p.Check(ctx) {
			end := report{At: monotonic(), Told: true}
			if !until.IsZero() {
				// It knew in advance when its trust would end.
				end.Until = end.At - time.Since(until)
			}
			return end
		}
		if u := p.Until(); !u.IsZero() {
			until = u
		}
		if measure.Pause(ctx, step) != nil {
			break
		}
		select {
		case <-finish:
			left--
		default:
		}
	}
	return report{}
}
