package storm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/dev/verify/promises"
	"github.com/berth-go/berth/dev/verify/worker"
	"github.com/berth-go/berth/internal/child"
)

// client is a client process.
type client struct {
	*child.Process

	proc int
}

// spawn starts a client process. Every other one has a network without faults, so that
// the liveness bounds can be judged.
func (s *storm) spawn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs++
	c := &client{proc: s.procs}
	trier := changing
	trier.Tries = true
	faults, all := c.proc%2 == 0, slices.Concat(seats, timed, timed, []worker.Seat{spending, bucket, trier, queue, queue, deaf, slow, shared, shared, fair, fair, fair, fresh})
	if faults {
		all = slices.Concat(seats, []worker.Seat{spending, bucket, rough, rough, line, shared, shared})
	}
	python := s.Python != nil && c.proc%4 == 1
	if python { // its clients have one rate of calls, and do not settle
		all = slices.DeleteFunc(all, func(seat worker.Seat) bool {
			return strings.Contains(string(seat.Rates), ",") || strings.Contains(string(seat.Rates), "+")
		})
	}
	spec, err := json.Marshal(worker.Spec{
		Socket: s.server.Socket(), Prefix: s.prefix, Proc: c.proc, Seed: s.Seed, Start: s.start, Seats: all,
		History: filepath.Join(s.dir, fmt.Sprintf("%d.jsonl", c.proc)), Handles: filepath.Join(s.dir, "handles"), Faults: faults,
	})
	s.check(err)
	log, err := os.OpenFile(filepath.Join(s.dir, "stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.check(err)
	defer log.Close()
	cmd := exec.Command(cmp.Or(s.Program, os.Args[0]))
	if python {
		cmd = exec.Command(s.Python[0], s.Python[1:]...)
	}
	cmd.Env = append(os.Environ(), worker.Env+"="+string(spec), "GOMAXPROCS=2", "GOMEMLIMIT=128MiB")
	cmd.Stderr = log
	c.Process, err = child.Start(cmd)
	s.check(err)
	s.Cleanup(c.Kill)
	s.workers[c.proc] = c
}

// victim chooses a living client, from the seed, which no other fault will strike, and
// returns nil if there is none.
func (s *storm) victim() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	procs := slices.Sorted(maps.Keys(s.workers))
	if len(procs) == 0 {
		return nil
	}
	c := s.workers[procs[s.rng.IntN(len(procs))]]
	delete(s.workers, c.proc)
	select {
	case <-c.Done(): // not by a fault
		s.crashed(c)
	default:
	}
	return c
}

// killClient kills a client and starts a new one in its place.
func killClient(s *storm) history.Event {
	c := s.victim()
	if c == nil {
		return history.Event{}
	}
	c.Kill()
	s.spawn()
	return history.Event{Target: c.proc, Text: promises.Killed}
}

// stopClient suspends a client, up to twice its TTL, while other faults go on.
func stopClient(s *storm) history.Event {
	c := s.victim()
	if c == nil {
		return history.Event{}
	}
	d := s.between(50*time.Millisecond, 3*time.Second)
	from := history.Now()
	if c.Cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return history.Event{}
	}
	s.after.Go(func() {
		pause(d)
		_ = c.Cmd.Process.Signal(syscall.SIGCONT)
		s.note(from, history.Event{Target: c.proc, Text: promises.Suspended})
		s.mu.Lock()
		s.workers[c.proc] = c
		s.mu.Unlock()
	})
	return history.Event{}
}

// crashed fails the storm for a client that has ended by itself.
func (s *storm) crashed(c *client) {
	s.Errorf("client %d ended with code %d: %.2000s", c.proc, c.Cmd.ProcessState.ExitCode(), s.complaints())
}

// complaints is what the clients have written on standard error.
func (s *storm) complaints() []byte {
	text, _ := os.ReadFile(filepath.Join(s.dir, "stderr"))
	return text
}

// dismiss tells all clients to release their leases and to end.
func (s *storm) dismiss() {
	for _, c := range s.workers {
		c.Leave()
	}
	timeout := time.After(patience)
	for _, c := range s.workers {
		select {
		case <-c.Done():
			if c.Cmd.ProcessState.ExitCode() != 0 {
				s.crashed(c)
			}
		case <-timeout:
			s.Errorf("client %d did not end within %v of being told to", c.proc, patience)
			return
		}
	}
	// Of those that were killed, too: their exit code says nothing.
	text := s.complaints()
	for _, bad := range []string{"panic: ", "fatal error: ", "DATA RACE", "Traceback"} {
		if at := bytes.Index(text, []byte(bad)); at >= 0 {
			s.Errorf("of a client: %.4000s", text[at:])
		}
	}
}
