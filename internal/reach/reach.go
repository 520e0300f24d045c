// Package reach finds out whether a Redis can be reached, even if the client's connection
// pool is exhausted.
//
// It makes a connection of its own and takes any answer, even an error, as a sign of life.
// A silence counts only while this process runs on time: in a process that is short of CPU,
// every server would seem to time out.
package reach

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostSilence is how long a server may be silent, and most how long it may take to find
	// that out.
	mostSilence = 3 * time.Second
	most        = 10 * time.Second
	// pace is how often this process must be scheduled for a silence to count.
	pace = 100 * time.Millisecond
	// sampled is how many keys are tried to find the masters of a Cluster.
	sampled = 64
)

// ErrAway: the server cannot be reached, or is silent.
var ErrAway = errors.New("cannot be reached")

// Redis returns nil if the server of rdb answers anything at all; in a Cluster, if any of
// the nodes that the client knows does. It fails with ErrAway when the server cannot be
// reached or stays silent. Any other error means that it could not find out: ctx has ended,
// this process has no CPU, descriptor or port left, or rdb is of an unknown type. It takes
// 3 seconds if the server is silent, and at most 10; for a Cluster 3 seconds more. A process
// that has no CPU left may be later to return.
func Redis(ctx context.Context, rdb redis.UniversalClient) error {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return ask(ctx, rdb.Options())
	case *redis.ClusterClient:
		return askAny(ctx, nodes(ctx, rdb))
	default:
		return fmt.Errorf("a client of type %T does not show how it connects", rdb)
	}
}

// nodes returns the options for connections to the nodes that the client began with, and to
// the masters that it knows now.
func nodes(ctx context.Context, rdb *redis.ClusterClient) []*redis.Options {
	masters := make(chan *redis.Client, sampled)
	go func() { // a client that knows no master yet asks for them, which may take long
		defer close(masters)
		for i := range sampled {
			if master, err := rdb.MasterForKey(ctx, strconv.Itoa(i)); err == nil {
				masters <- master
			}
		}
	}()
	all := map[string]*redis.Options{}
	o := rdb.Options()
	for _, addr := range o.Addrs {
		node := &redis.Options{Network: "tcp", Addr: addr, DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig, Dialer: o.Dialer}
		if node.Dialer == nil {
			node.Dialer = redis.NewDialer(node)
		}
		all[addr] = node
	}
	timeout := time.After(mostSilence)
	for {
		select {
		case master, more := <-masters:
			if !more {
				return slices.Collect(maps.Values(all))
			}
			all[master.Options().Addr] = master.Options()
		case <-timeout:
			return slices.Collect(maps.Values(all))
		}
	}
}

// askAny asks all nodes at once. One answer is enough. Without any, the result is known only
// if it is known for every node.
func askAny(ctx context.Context, nodes []*redis.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() { answers <- ask(ctx, node) }()
	}
	err := errors.New("no node is known")
	known := true
	for range nodes {
		answer := <-answers
		if answer == nil {
			return nil
		}
		if known { // else err stays the one that leaves it open
			err, known = answer, errors.Is(answer, ErrAway)
		}
	}
	return err
}

// ask waits for a sign of life of one server.
func ask(ctx context.Context, server *redis.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- converse(ctx, server) }()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	now := time.Now()
	wait := vigil{began: now, last: now}
	turn := takeTurn()
	for {
		select {
		case err := <-answer:
			if err != nil && ctx.Err() != nil {
				return ctx.Err() // which has closed the connection
			}
			return judge(err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var all bool
		select {
		case <-turn:
			all, turn = true, takeTurn()
		default:
		}
		if err := wait.tick(time.Now(), all); err != nil {
			return err
		}
	}
}

// takeTurn returns a channel that is closed when all that was ready to run has had its turn.
//
// The scheduler runs first whom a timer or another goroutine has woken. So in a process of many
// goroutines that compute, a ticker is on time while the one that is to read the answer, whom the
// network wakes, stands in the scheduler's global queue for seconds. Gosched goes to its end. A
// turn that nobody waits for any more ends by itself.
func takeTurn() <-chan struct{} {
	turn := make(chan struct{})
	go func() {
		runtime.Gosched()
		close(turn)
	}()
	return turn
}

// vigil is a wait for an answer.
type vigil struct {
	began, last time.Time
	silent      time.Duration // in which this process was prompt
}

// tick notes that this process ran at now, and whether all that was ready has had its turn since
// the last tick. It returns why the wait is over, or nil.
func (v *vigil) tick(now time.Time, all bool) error {
	if all && now.Sub(v.last) < 2*pace { // else whoever reads the answer may be held up as well
		v.silent += pace
	}
	v.last = now
	switch {
	case v.silent >= mostSilence:
		return fmt.Errorf("%w: no answer within %v", ErrAway, mostSilence)
	case now.Sub(v.began) >= most:
		return errors.New("this process is too busy to find out")
	}
	return nil
}

// converse connects, sends a PING, and reads the first byte that comes back. It tries again
// after a time-out, which may be this process's fault.
func converse(ctx context.Context, server *redis.Options) error {
	for {
		err := once(ctx, server)
		timeout, ok := errors.AsType[net.Error](err)
		if !ok || !timeout.Timeout() {
			return err
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func once(ctx context.Context, server *redis.Options) error {
	conn, err := server.Dialer(ctx, server.Network, server.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// A server that refuses connections says so and closes: then the write fails, but there
	// is something to read.
	_, _ = conn.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	_, err = conn.Read(make([]byte, 1))
	return err
}

// judge tells a server that cannot be reached from a process that cannot find out.
func judge(err error) error {
	if err == nil {
		return nil
	}
	if _, lookup := errors.AsType[*net.DNSError](err); lookup {
		// It does not tell why it failed: without a descriptor, "no such host".
		if why := noDescriptor(); ours(why) {
			return fmt.Errorf("%w: %w", why, err)
		}
	}
	if ours(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// ours reports whether err is the lack of something on this machine.
func ours(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL,
	}, func(lack error) bool { return errors.Is(err, lack) })
}

// noDescriptor returns why no file can be opened now, or nil.
func noDescriptor() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	return f.Close()
}
