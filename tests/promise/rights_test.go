package promise_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// allow gives user these rights on a server, and no others.
func allow(t *testing.T, s *redistest.Server, user string, rights []string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user, "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	s.Do(t, args...)
}

// asUser returns a client of a server that gives this user these rights.
func asUser(t *testing.T, s *redistest.Server, user string, rights []string, opts ...func(*redis.Options)) *redis.Client {
	t.Helper()
	allow(t, s, user, rights)
	return s.Client(t, append(opts, func(o *redis.Options) { o.Username, o.Password = user, "secret" })...)
}

// asBerth returns a client of a server that gives user berth these rights.
func asBerth(t *testing.T, s *redistest.Server, rights []string) *redis.Client {
	t.Helper()
	return asUser(t, s, "berth", rights)
}

func rightsClient(t *testing.T, rdb redis.UniversalClient) *berth.Client {
	t.Helper()
	c := must(berth.New(rdb))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// exercise does all that berth does with Redis: it takes and gives back permits
// in every way, and operates.
type exercise struct {
	t    *testing.T
	ctx  context.Context
	rdb  func(dial redistest.DialFunc) redis.UniversalClient
	mine *berth.Client
	// heard reports whether somebody subscribes to the channel of a semaphore. It is nil where
	// a process has one channel for all of them.
	heard func(name string) bool
}

// run returns what went wrong.
func (e *exercise) run() error {
	e.mine = rightsClient(e.t, e.rdb(nil))
	var errs []error
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"alone", e.alone},
		{"crowd", e.crowd},
		{"expiry", e.expiry},
		{"dead waiter", e.deadWaiter},
		{"lost reply", e.lostReply},
		{"operator", e.operator},
		{"pinned", e.pinned},
		{"paused", e.paused},
		{"handle", e.handle},
		{"unused", e.unused},
	} {
		if err := step.do(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

func (e *exercise) sem(c *berth.Client, name string, limit int, opts ...berth.Option) *berth.Semaphore {
	return must(c.Semaphore(name, limit, opts...))
}

// operates returns an Inspector that asks again where a slow machine takes 2 seconds.
func (e *exercise) operates() *testenv.Inspector {
	return (&testenv.Env{T: e.t, Ctx: e.t.Context()}).Patient(berthadmin.Of(e.mine))
}

// wait queues a request, which is given back once it is granted.
func (e *exercise) wait(ctx context.Context, sem *berth.Semaphore) (done chan error, err error) {
	queued, done := make(chan struct{}), make(chan error, 1)
	go func() {
		l, err := sem.Acquire(ctx, berth.OnQueued(onceClosing(queued)), berth.HeadStart(time.Millisecond))
		if err == nil {
			err = l.Release()
		}
		done <- err
	}()
	select {
	case <-queued:
		return done, nil
	case err := <-done:
		return nil, fmt.Errorf("instead of a place in line: %w", err)
	}
}

func (e *exercise) alone() error {
	l, err := e.sem(e.mine, "alone", 1).Acquire(e.ctx)
	if err != nil {
		return err
	}
	return errors.Join(l.Renew(e.ctx), l.Release())
}

// crowd is three holders, one of them for long, and two who wait.
func (e *exercise) crowd() error {
	sem := e.sem(e.mine, "crowd", 3)
	var held []*berth.Lease
	for range 3 {
		l, err := sem.Acquire(e.ctx)
		if err != nil {
			return err
		}
		held = append(held, l)
	}
	other := e.sem(rightsClient(e.t, e.rdb(nil)), "crowd", 3)
	var waiting []chan error
	for range 2 {
		done, err := e.wait(e.ctx, other)
		if err != nil {
			return err
		}
		waiting = append(waiting, done)
	}
	errs := []error{held[0].Renew(e.ctx)}
	for _, l := range held {
		errs = append(errs, l.Release())
	}
	for _, done := range waiting {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

// expiry is a lease that nobody gives back.
func (e *exercise) expiry() error {
	sem := e.sem(e.mine, "expiry", 1)
	_, err := sem.Acquire(e.ctx, berth.WithoutRenewal(), berth.TTL(time.Second))
	if err != nil && !errors.Is(err, berth.ErrLost) { // on a slow machine it is over already
		return err
	}
	l, err := sem.Acquire(e.ctx)
	if err != nil {
		return err
	}
	return l.Release()
}

// deadWaiter is one whose process has gone.
func (e *exercise) deadWaiter() error {
	l, err := e.sem(e.mine, "dead", 1).Acquire(e.ctx)
	if err != nil {
		return err
	}
	rdb := e.rdb(nil)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	if _, err := e.wait(ctx, e.sem(rightsClient(e.t, rdb), "dead", 1, berth.TTL(time.Second))); err != nil {
		return err
	}
	_ = rdb.Close()
	next, err := e.wait(e.ctx, e.sem(e.mine, "dead", 1))
	if err != nil {
		return err
	}
	return errors.Join(l.Release(), <-next)
}

// lostReply is an acquire that is executed and then asked for again.
func (e *exercise) lostReply() error {
	faults := redistest.NewFaults(e.t)
	sem := e.sem(rightsClient(e.t, e.rdb(faults.Dialer(nil))), "lost", 2)
	for range 2 {
		l, err := sem.Acquire(e.ctx)
		if err != nil {
			return err
		}
		defer l.Release()
		faults.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowReplyAndClose})
	}
	return nil
}

// pinned is a semaphore that is remembered, with permits that come back out of order.
func (e *exercise) pinned() error {
	sem, in := e.sem(e.mine, "pinned", 3), e.operates()
	var held []*berth.Lease
	for range 3 {
		l, err := sem.Acquire(e.ctx)
		if err != nil {
			return err
		}
		held = append(held, l)
	}
	errs := []error{in.Pin(e.ctx, "pinned", 3)}
	for _, l := range held {
		errs = append(errs, l.Release())
	}
	return errors.Join(append(errs, in.Unpin(e.ctx, "pinned"))...)
}

func (e *exercise) operator() error {
	in, name := e.operates(), "operator"
	sem := e.sem(e.mine, "operator", 2)
	first, err := sem.Acquire(e.ctx)
	if err != nil {
		return err
	}
	second, err := sem.Acquire(e.ctx)
	if err != nil {
		return err
	}
	errs := []error{
		in.Pin(e.ctx, name, 1), in.Unpin(e.ctx, name), in.Pause(e.ctx, name), in.Resume(e.ctx, name), in.Resize(e.ctx, name, 3),
		in.Evict(e.ctx, name, first.ID()), in.ForceEvict(e.ctx, name, second.ID()),
	}
	_, err = testenv.Listed(in.List(e.ctx))
	errs = append(errs, err)
	_, err = in.Show(e.ctx, name)
	_ = first.Release() // it is lost
	return errors.Join(append(errs, err, in.Purge(e.ctx, name))...)
}

// paused is a semaphore of which everything is given back while one waits, who
// has moved up in the queue.
func (e *exercise) paused() error {
	sem := e.sem(e.mine, "paused", 2, berth.TTL(2*time.Second)) // of those who wait, to hear from them soon
	var held [2]*berth.Lease
	for i := range held {
		l, err := sem.Acquire(e.ctx, berth.TTL(time.Minute))
		if err != nil {
			return err
		}
		held[i] = l
	}
	ahead, leave := context.WithCancel(e.ctx)
	defer leave()
	left, err := e.wait(ahead, sem)
	if err != nil {
		return err
	}
	in := e.operates()
	errs := []error{in.Pause(e.ctx, "paused")}
	places, done := make(chan berth.Place, 8), make(chan error, 1)
	go func() {
		l, err := sem.Acquire(e.ctx, berth.OnQueued(func(p berth.Place) { places <- p }), berth.HeadStart(time.Millisecond))
		if err == nil {
			err = l.Release()
		}
		if errors.Is(err, berth.ErrLost) { // a slow machine
			err = nil
		}
		done <- err
	}()
	for moved := false; !moved; {
		select {
		case p := <-places:
			moved = p.Ahead == 0
			leave()
		case err := <-done:
			return fmt.Errorf("instead of a place in line: %w", err)
		}
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		errs = append(errs, fmt.Errorf("the one who left: %w", err))
	}
	errs = append(errs, held[0].Release(), held[1].Release(), in.Resume(e.ctx, "paused"), <-done)
	return errors.Join(errs...)
}

func (e *exercise) handle() error {
	l, err := e.sem(e.mine, "handle", 1).Acquire(e.ctx)
	if err != nil {
		return err
	}
	handle, err := l.Detach(e.ctx)
	if err != nil {
		return err
	}
	l, err = rightsClient(e.t, e.rdb(nil)).Adopt(e.ctx, handle)
	if err != nil {
		return err
	}
	return l.Release()
}

// unused is a semaphore that is not used any more while another one still is: the process
// gives up its channel.
func (e *exercise) unused() error {
	if e.heard == nil {
		return nil
	}
	kept, err := e.sem(e.mine, "kept", 1).Acquire(e.ctx)
	if err != nil {
		return err
	}
	l, err := e.sem(e.mine, "unused", 1).Acquire(e.ctx)
	if err != nil {
		return err
	}
	errs := []error{e.until(func() bool { return e.heard("kept") && e.heard("unused") }), l.Release()}
	errs = append(errs, e.until(func() bool { return !e.heard("unused") }), kept.Release())
	return errors.Join(errs...)
}

// until looks again and again.
func (e *exercise) until(ok func() bool) error {
	for !ok() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	return nil
}

// onceClosing returns a callback that closes c at its first call.
func onceClosing(c chan struct{}) func(berth.Place) {
	first := true
	return func(berth.Place) {
		if first {
			first = false
			close(c)
		}
	}
}

// exerciser returns what runs the exercise for a user of a new server who has
// these rights, and the server. clustered is a server that is a Cluster.
func exerciser(t *testing.T, clustered bool, rights []string) (*exercise, *redistest.Server) {
	t.Helper()
	if !clustered {
		s := redistest.Start(t)
		return &exercise{t: t, ctx: t.Context(), rdb: func(dial redistest.DialFunc) redis.UniversalClient {
			return asUser(t, s, "berth", rights, func(o *redis.Options) { o.Dialer = dial })
		}}, s
	}
	redistest.NeedsShardChannels(t)
	s := redistest.Start(t, redistest.WithTCP(), redistest.WithConfig("cluster-enabled yes"))
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	allow(t, s, "berth", rights)
	return &exercise{
		t: t, ctx: t.Context(),
		rdb: func(dial redistest.DialFunc) redis.UniversalClient {
			c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr()}, Username: "berth", Password: "secret", Dialer: dial})
			t.Cleanup(func() { _ = c.Close() })
			return c
		},
		heard: func(name string) bool {
			return len(s.Do(t, "PUBSUB", "SHARDCHANNELS", "berth:{"+name+"}*").([]any)) > 0
		},
	}, s
}

// TestDocumentedRightsSuffice: everything works for a user with the rights that
// the documentation names, and nothing is tried that they do not allow.
func TestDocumentedRightsSuffice(t *testing.T) {
	rights, clustered := redistest.LeastRights(t, "../..")
	for name, all := range map[string][]string{"alone": rights, "cluster": slices.Concat(rights, clustered)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := exerciser(t, name == "cluster", all)
			if err := e.run(); err != nil {
				t.Error(err)
			}
			if tried := s.Denied(t); len(tried) > 0 {
				t.Errorf("it was denied %v", tried)
			}
		})
	}
}

// TestEachRightIsNeeded: without any one of the documented rights, berth is denied
// something that it tries.
func TestEachRightIsNeeded(t *testing.T) {
	rights, clustered := redistest.LeastRights(t, "../..")
	all := slices.Concat(rights, clustered)
	for i, right := range all {
		if !strings.ContainsAny(right[:1], "+~&") {
			continue // it takes rights away
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			inCluster := i >= len(rights)
			least := all
			if !inCluster {
				least = rights
			}
			e, s := exerciser(t, inCluster, slices.Delete(slices.Clone(least), i, i+1))
			var stop context.CancelFunc
			e.ctx, stop = context.WithCancel(t.Context())
			problem := make(chan error, 1)
			go func() { problem <- e.run() }()
			awaitDenial(t, s, right)
			stop()
			<-problem
		})
	}
}

// awaitDenial waits until the server has denied what needs right. The last to
// need one is a subscription that has been quiet for a while: it sends a PING.
func awaitDenial(t *testing.T, s *redistest.Server, right string) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for tick := time.Tick(20 * time.Millisecond); ; {
		tried := s.Denied(t)
		if slices.Contains(tried, right[1:]) || right[0] != '+' && len(tried) > 0 {
			return
		}
		select {
		case <-tick:
		case <-deadline:
			t.Errorf("nothing that was tried needs it; denied was %v", tried)
			return
		}
	}
}
