//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	kids "github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// client is the role in which the test binary runs itself, with an order.
const client = "client"

// order is what a child is to do: acquire each of the leases, then obey.
type order struct {
	Network, Addr, Prefix string
	Limit                 int
	Rate                  int // an hour; 0: none
	TTL                   time.Duration
}

func TestMain(m *testing.M) {
	switch role, order := kids.Role(); role {
	case client:
		os.Exit(childMain(order))
	case starved:
		os.Exit(starvedMain(order))
	}
	testenv.Main(m)
}

// childMain acquires a lease, says so, and obeys the words on its standard
// input. It ends with its parent, which holds the input.
func childMain(text []byte) int {
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return complain(err)
	}
	rdb := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr})
	client, err := berth.New(rdb, berth.Prefix(o.Prefix))
	if err != nil {
		return complain(err)
	}
	opts := []berth.Option{berth.TTL(o.TTL)}
	if o.Rate > 0 {
		opts = append(opts, berth.Rate(o.Rate, time.Hour))
	}
	s, err := client.Semaphore(testenv.Name, o.Limit, opts...)
	if err != nil {
		return complain(err)
	}
	words, word := json.NewDecoder(os.Stdin), ""
	if err := words.Decode(&word); err != nil || word != "acquire" {
		return complain(fmt.Errorf("unknown word %q: %w", word, err))
	}
	lease, err := s.Acquire(context.Background())
	if err != nil {
		return complain(err)
	}
	say("held %s %d %d", lease.ID(), lease.Token(), lease.Slot())
	context.AfterFunc(lease.Context(), func() {
		if errors.Is(context.Cause(lease.Context()), berth.ErrLost) {
			say("lost")
		}
	})
	for words.Decode(&word) == nil {
		switch word {
		case "watch":
			go watch(lease, o.TTL)
		case "suspend":
			clock.Suspend(2 * o.TTL)
			say("valid %v", lease.Valid())
		case "suspend and release":
			clock.Suspend(2 * o.TTL)
			say("late %v", errors.Is(lease.Release(), berth.ErrLost))
		case "release":
			say("released %v", lease.Release())
		}
	}
	return 0
}

// watch spins until it finds that the process stood still for longer than the
// TTL, and then says at once whether the lease is valid: no timer has fired yet.
func watch(lease *berth.Lease, ttl time.Duration) {
	last := time.Now()
	say("watching now")
	for {
		now := time.Now()
		valid := lease.Valid()
		if now.Sub(last) > ttl {
			say("valid %v", valid)
			return
		}
		last = now
	}
}

// say writes one line in one write, so that lines of two goroutines do not mix.
func say(format string, args ...any) {
	_ = json.NewEncoder(os.Stdout).Encode(fmt.Sprintf(format, args...))
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "child:", err)
	return 1
}

// child is a client process.
type child struct {
	*kids.Process

	e *testenv.Env
}

// start starts a process, which waits for its first word.
func start(e *testenv.Env, limit int) *child {
	e.Helper()
	return startWith(e, order{Network: "unix", Addr: e.Server.Socket(), Prefix: e.Prefix, Limit: limit, TTL: e.TTL})
}

func startWith(e *testenv.Env, o order) *child {
	e.Helper()
	p, err := kids.Again(client, o)
	e.Must(err)
	e.Cleanup(p.Kill)
	return &child{p, e}
}

// tell gives the child a word.
func (c *child) tell(word string) {
	c.e.Helper()
	if err := c.Tell(word); err != nil {
		c.e.Errorf("%s: %v", word, err)
	}
}

// line waits for the child's next line, which is to be about what.
func (c *child) line(what string) (line string) {
	c.e.Helper()
	c.e.Must(json.Unmarshal(testenv.Receive(c.e, what+" from a child", c.Said), &line))
	return line
}

// says waits for the child's next line and returns what follows its first word,
// which must be word.
func (c *child) says(word string) string {
	c.e.Helper()
	line := c.line(word)
	rest, ok := strings.CutPrefix(line, word+" ")
	if !ok {
		c.e.Fatalf("the child says %q, not %q", line, word)
	}
	return rest
}

// signal sends a signal to the child.
func (c *child) signal(s syscall.Signal) {
	c.e.Helper()
	if err := c.Cmd.Process.Signal(s); err != nil {
		c.e.Fatal(err)
	}
}

// holding starts a child that holds a lease.
func holding(e *testenv.Env, limit int) *child {
	e.Helper()
	c := start(e, limit)
	c.acquire()
	return c
}

func (c *child) acquire() {
	c.e.Helper()
	c.tell("acquire")
	c.says("held")
}

// inLine starts a child that is the n-th in the queue.
func inLine(e *testenv.Env, limit, n int) *child {
	e.Helper()
	c := start(e, limit)
	c.tell("acquire")
	e.UntilWaiting(n)
	return c
}
