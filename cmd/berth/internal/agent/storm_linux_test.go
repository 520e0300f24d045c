package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

const (
	stormLimit = 3
	stormTTL   = time.Second
	// stormEnv is how long the storm lasts, by default stormTime.
	stormEnv  = "BERTH_AGENT_STORM"
	stormTime = 8 * time.Second
)

// storm is programs of an agent and Go programs on one semaphore, while the agent is killed and
// suspended, Redis stands still, and programs end and hang.
type storm struct {
	*testenv.Env
	path  string
	start time.Time

	mu      sync.Mutex
	beliefs []belief // guarded by mu
}

// belief is what one program believed of one permit.
type belief struct {
	judge.Request
	end string // why it ended
}

// TestStormOverGoAndAgentClients: whatever fails, there are never more beliefs than permits, nor
// two with one slot or token, and in the end all is given back.
func TestStormOverGoAndAgentClients(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		dir, err := os.MkdirTemp("", "berth")
		e.Must(err)
		e.Cleanup(func() { os.RemoveAll(dir) })
		s := &storm{Env: e, path: filepath.Join(dir, "a", "agent.sock"), start: time.Now()}
		length := stormTime
		if text := os.Getenv(stormEnv); text != "" {
			length, err = time.ParseDuration(text)
			e.Must(err)
		}
		seed := rand.Uint64()
		e.Log("seed", seed)
		ctx, stop := context.WithTimeout(e.Ctx, length)
		defer stop()
		var workers sync.WaitGroup
		for i := range 9 {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			if i%3 == 0 {
				sem := e.Peer().Sem(stormLimit, berth.TTL(stormTTL))
				workers.Go(func() { s.goes(ctx, sem, rng) })
			} else {
				workers.Go(func() { s.asks(ctx, i, rng) })
			}
		}
		agent := s.rage(ctx, rand.New(rand.NewPCG(seed, 100)))
		workers.Wait()
		agent.End()
		s.judge()
	})
}

// rage strikes until ctx ends, and leaves an agent and a Redis that work.
func (s *storm) rage(ctx context.Context, rng *rand.Rand) *child.Process {
	open := func() *child.Process {
		p, _ := startAgent(s, agentConfig{Path: s.path, Network: s.Options.Network, Addr: s.Options.Addr, Prefix: s.Prefix})
		return p
	}
	agent := open()
	for ctx.Err() == nil {
		s.Pass(between(rng, 100, 600))
		switch rng.IntN(3) {
		case 0:
			agent.Kill()
			agent = open()
		case 1:
			s.Must(agent.Cmd.Process.Signal(unix.SIGSTOP))
			s.Pass(between(rng, 50, 2000))
			s.Must(agent.Cmd.Process.Signal(unix.SIGCONT))
		case 2:
			s.Server.Stop()
			s.Pass(between(rng, 50, 1500))
			s.Server.Cont()
		}
	}
	return agent
}

func between(rng *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+rng.IntN(most-least)) * time.Millisecond
}

// hold is how long a program works: mostly not long, and now and then longer than its TTL.
func holdTime(rng *rand.Rand) time.Duration {
	if rng.IntN(8) == 0 {
		return between(rng, 500, 2500)
	}
	return between(rng, 0, 60)
}

// now is the time since the beginning.
func (s *storm) now() time.Duration { return time.Since(s.start) }

// note keeps a belief that has ended at end, or before, where it was not to be relied on longer.
func (s *storm) note(b belief, until time.Time, why string) {
	b.Granted, b.end = true, why
	b.End = max(b.Start, min(s.now(), until.Sub(s.start)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beliefs = append(s.beliefs, b)
}

// goes is a Go program.
func (s *storm) goes(ctx context.Context, sem *berth.Semaphore, rng *rand.Rand) {
	for ctx.Err() == nil {
		asked := s.now()
		lease, err := sem.Acquire(ctx)
		if err != nil {
			continue
		}
		b := belief{Request: judge.Request{Asked: asked, Start: s.now(), Slot: lease.Slot(), Token: lease.Token()}}
		until, why := lease.ValidUntil(), "done"
		select {
		case <-time.After(holdTime(rng)):
		case <-lease.Context().Done():
			why = "lost"
		}
		if last := lease.ValidUntil(); last.After(until) {
			until = last
		}
		s.note(b, until, "go "+why)
		_ = lease.Release()
	}
}

// asks is a program of the agent, which ends and hangs in every manner.
func (s *storm) asks(ctx context.Context, n int, rng *rand.Rand) {
	for ctx.Err() == nil {
		conn, err := net.Dial("unix", s.path)
		if err != nil {
			s.Pass(between(rng, 1, 20)) // there is no agent
			continue
		}
		freezes := rng.IntN(6) == 0
		body := fmt.Sprintf(`{"name":%q,"limit":%d,"ttl_ms":%d`, testenv.Name, stormLimit, stormTTL.Milliseconds())
		if freezes {
			body += `,"beat_ms":300`
		}
		asked := s.now()
		_, _ = io.WriteString(conn, post(body+"}")) // or the agent has just ended
		p := &program{conn: conn, events: make(chan event, 100)}
		go p.read()
		s.visit(ctx, p, judge.Request{Client: n, Asked: asked}, rng, freezes)
		if rng.IntN(2) == 0 { // it waits for the end
			_ = conn.(*net.UnixConn).CloseWrite()
			select {
			case <-p.events:
			case <-time.After(50 * time.Millisecond):
			}
		}
		conn.Close()
		for range p.events { // ended by that
		}
	}
}

// visit waits for the permit, works, and returns at the end of its belief.
func (s *storm) visit(ctx context.Context, p *program, r judge.Request, rng *rand.Rand, freezes bool) {
	b, until := belief{Request: r}, time.Time{}
	var over, work <-chan time.Time
	for {
		select {
		case e, ok := <-p.events:
			switch {
			case ok && (e.Event == "granted" || e.Event == "renewed"):
				// The clocks are read in the order that makes it early.
				now := time.Now()
				until = now.Add(time.Duration(e.UntilBoot)*time.Millisecond - boottime())
				over = time.After(time.Until(until))
				if e.Event == "renewed" {
					continue
				}
				b.Start, b.Token, b.Slot = s.now(), e.Token, e.Slot
				work = time.After(holdTime(rng))
				if freezes { // it does nothing more, for longer than its beat, and gives up then
					s.note(b, now, "agent frozen")
					s.Pass(between(rng, 400, 1500))
					return
				}
			case work != nil:
				s.note(b, until, "agent "+cmp.Or(e.Event, "died"))
				return
			case !ok || e.Event != "queued":
				return
			}
		case <-over:
			s.note(b, until, "agent silent")
			return
		case <-work:
			s.note(b, until, "agent done")
			return
		case <-ctx.Done():
			if work != nil {
				s.note(b, until, "agent done")
			}
			return
		}
	}
}

// judge looks at all beliefs, and waits until everything was given back.
func (s *storm) judge() {
	s.Helper()
	requests, ends := make([]judge.Request, len(s.beliefs)), map[string]int{}
	for i, b := range s.beliefs {
		requests[i] = b.Request
		ends[b.end]++
	}
	s.Logf("%d beliefs: %v", len(s.beliefs), ends)
	if ends["go done"] == 0 || ends["agent done"] == 0 {
		s.Fatal("not all took part")
	}
	for _, wrong := range judge.Broken(requests, stormLimit) {
		s.Error(wrong)
	}
	highest := slices.MaxFunc(requests, func(a, b judge.Request) int { return cmp.Compare(a.Token, b.Token) })
	s.NothingLeft(stormLimit, highest.Token)
}
