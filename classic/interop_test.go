//go:build testall

package classic_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// python is a running testdata/textclient.py: a program written from the
// chapter, on the same Redis.
type python struct {
	in  *json.Encoder
	out *json.Decoder
}

type request map[string]any

// startPython runs the program until the test ends. A machine without Python or
// its redis module fails the test: what does not run proves nothing.
func startPython(t *testing.T, socket string) *python {
	t.Helper()
	cmd := exec.Command(findPython(t), "-B", "testdata/textclient.py", socket)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	noError(t, err)
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // which ends the program
		if err := cmd.Wait(); err != nil {
			t.Errorf("the Python program failed: %v\n%s", err, complaints.String())
		}
	})
	return &python{json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
}

func findPython(t *testing.T) string {
	t.Helper()
	// Debian's interpreter sees Debian's modules; one that comes first on PATH
	// may not.
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import redis").Run() == nil {
			return name
		}
	}
	t.Fatal("there is no python3 with the module redis: install it with " +
		"`apt-get install python3-redis` (Debian, Ubuntu) or `pip install redis`")
	return ""
}

// call returns the result of a call, nil for Python's None.
func (p *python) call(t testing.TB, name string, r request) any {
	t.Helper()
	result, err := p.ask(name, r)
	noError(t, err)
	return result
}

func (p *python) ask(name string, r request) (any, error) {
	r["call"] = name
	if err := p.in.Encode(r); err != nil {
		return nil, fmt.Errorf("the Python program does not read: %w", err)
	}
	var answer struct {
		Result any
		Error  string
	}
	if err := p.out.Decode(&answer); err != nil {
		return nil, fmt.Errorf("the Python program does not answer: %w", err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("in Python: %s", answer.Error)
	}
	return answer.Result, nil
}

// pySemaphore is the Python program seen as one of the package's semaphores,
// with the same clock.
type pySemaphore struct {
	*python
	kind, name string
	limit      int
	at         *clock
	ids        []string // for the next tries; without any, random ones
}

func (p *pySemaphore) Acquire(context.Context) (string, bool, error) {
	r := request{"name": p.name, "limit": p.limit, "now": p.seconds()}
	if p.kind == "locked" {
		r["wait"], r["lock_timeout"] = 60, 60 // the chapter's 10 ms are a matter of luck on a loaded machine
	}
	if len(p.ids) > 0 {
		r["ids"], p.ids = p.ids[:1], p.ids[1:]
	}
	id, err := p.ask(p.kind+"_acquire", r)
	if id == nil {
		return "", false, err
	}
	return id.(string), true, err
}

func (p *pySemaphore) Release(_ context.Context, id string) (bool, error) {
	ok, err := p.ask(p.kind+"_release", request{"name": p.name, "id": id})
	return ok == true, err
}

func (p *pySemaphore) Refresh(_ context.Context, id string) (bool, error) {
	ok, err := p.ask(p.kind+"_refresh", request{"name": p.name, "id": id, "now": p.seconds()})
	return ok == true, err
}

func (p *pySemaphore) seconds() float64 { return float64(p.at.now().UnixMicro()) / 1e6 }

// mixed is one semaphore, used from Go and from Python.
type mixed struct {
	store
	at  *clock
	one semaphore // in one language
	two semaphore // in the other
}

// inBothDirections runs body for each type, once with Go first and once with
// Python first. The limit is 2.
func inBothDirections(t *testing.T, kinds map[string]constructor, body func(*testing.T, mixed)) {
	t.Helper()
	server := redistest.Shared(t)
	p := startPython(t, server.Socket())
	for kind, c := range kinds {
		for _, first := range []string{"Go", "Python"} {
			t.Run(kind+"/"+first+" first", func(t *testing.T) {
				s := newStore(t, server.Prefix(t), func(t testing.TB) *redis.Client { return server.Client(t, redistest.Patient) })
				at := newClock()
				m := mixed{
					s, at, c(t, s.rdb, s.name, 2, classic.WithClock(at.now)),
					&pySemaphore{python: p, kind: kind, name: s.name, limit: 2, at: at},
				}
				if first == "Python" {
					m.one, m.two = m.two, m.one
				}
				body(t, m)
			})
		}
	}
}

var (
	allKinds  = map[string]constructor{"basic": newBasic, "fair": newFair, "locked": newFairUnderLock}
	fairKinds = map[string]constructor{"fair": newFair, "locked": newFairUnderLock}
)

func TestGoAndPythonSeeEachOthersHoldersAndKeepOneLimit(t *testing.T) {
	inBothDirections(t, allKinds, func(t *testing.T, m mixed) {
		first := hold(t, m.one)
		m.at.advance(time.Millisecond)
		second := hold(t, m.two)
		members(t, m.store, m.name, first, second)
		m.at.advance(time.Millisecond)
		refused(t, m.one)
		refused(t, m.two)
		members(t, m.store, m.name, first, second)
	})
}

func TestGoAndPythonHonourEachOthersReleases(t *testing.T) {
	inBothDirections(t, allKinds, func(t *testing.T, m mixed) {
		first := hold(t, m.one)
		m.at.advance(time.Millisecond)
		hold(t, m.one)
		m.at.advance(time.Millisecond)
		refused(t, m.two)
		release(t, m.one, first, true)
		hers := hold(t, m.two)
		release(t, m.one, hers, true) // an identifier is good in either language
		release(t, m.two, hers, false)
	})
}

func TestGoAndPythonTimeOutEachOthersPermits(t *testing.T) {
	inBothDirections(t, allKinds, func(t *testing.T, m mixed) {
		old := hold(t, m.one)
		hold(t, m.one)
		m.at.advance(classic.DefaultTimeout)
		hold(t, m.two)
		release(t, m.one, old, false)
	})
}

func TestGoAndPythonRefreshEachOthersPermits(t *testing.T) {
	inBothDirections(t, fairKinds, func(t *testing.T, m mixed) {
		kept, lost := hold(t, m.one), hold(t, m.one)
		m.at.advance(classic.DefaultTimeout / 2)
		refresh(t, m.two, kept, true)
		m.at.advance(classic.DefaultTimeout / 2)
		next := hold(t, m.two) // drops the one that was not refreshed
		refresh(t, m.two, lost, false)
		refresh(t, m.one, kept, true)
		members(t, m.store, m.name+":owner", kept, next)
	})
}

func TestGoAndPythonShareTheLock(t *testing.T) {
	server := redistest.Shared(t)
	s := newStore(t, server.Prefix(t), func(t testing.TB) *redis.Client { return server.Client(t, redistest.Patient) })
	p := startPython(t, server.Socket())
	l := newLock(t, s.rdb, s.name)

	inPython := p.call(t, "lock_acquire", request{"name": s.name, "lock_timeout": 3600}).(string)
	locked(t, l)
	unlock(t, l, "another", false)
	refused(t, newFairUnderLock(t, s.rdb, s.name, 1, classic.WithLockWait(time.Nanosecond)))
	if p.call(t, "lock_release", request{"name": s.name, "id": inPython}) != true {
		t.Fatal("Python could not release its lock")
	}

	inGo := lockNow(t, l)
	if id := p.call(t, "lock_acquire", request{"name": s.name, "wait": 0}); id != nil {
		t.Fatalf("Python got the lock %v, which Go has", id)
	}
	if p.call(t, "lock_release", request{"name": s.name, "id": "another"}) != false {
		t.Fatal("Python released a lock that it did not have")
	}
	unlock(t, l, inGo, true)
}

// Not only the outcome: the very commands are the same. (The lock is not among
// them, because section 6.2.5 has it in two steps, SETNX and EXPIRE.)
func TestGoAndPythonSendTheSameCommands(t *testing.T) {
	for kind, c := range map[string]constructor{"basic": newBasic, "fair": newFair} {
		t.Run(kind, func(t *testing.T) {
			server := redistest.Start(t)
			rec := record(t, "unix", server.Socket())
			names, at := []string{"one", "two", "three"}, newClock()
			oneOfEach(t, kind, c(t, rec.client(t), "sem", 1, classic.WithClock(at.now), ids(names...)), at)
			inGo := rec.take()

			server.Do(t, "FLUSHALL")
			at = newClock()
			oneOfEach(t, kind, &pySemaphore{startPython(t, rec.socket), kind, "sem", 1, at, names}, at)
			inPython := rec.take()
			for i, cmd := range inPython { // redis-py's incr() is INCRBY 1
				inPython[i] = strings.Replace(cmd, "INCRBY sem:counter 1", "INCR sem:counter", 1)
			}
			if !slices.Equal(inGo, inPython) || len(inGo) == 0 {
				t.Fatalf("Go sent:\n%s\nPython sent:\n%s", strings.Join(inGo, "\n"), strings.Join(inPython, "\n"))
			}
		})
	}
}

// oneOfEach has every operation and every outcome once.
func oneOfEach(t *testing.T, kind string, s semaphore, at *clock) {
	t.Helper()
	id := hold(t, s)
	at.advance(123456 * time.Microsecond)
	refused(t, s)
	if kind == "fair" {
		refresh(t, s, id, true)
	}
	at.advance(classic.DefaultTimeout)
	hold(t, s)
	release(t, s, id, false)
	if kind == "fair" {
		refresh(t, s, id, false)
	}
}

// Clients of both languages at once, under the lock: the limit is kept.
func TestGoAndPythonTogetherKeepTheLimitUnderTheLock(t *testing.T) {
	const limit, clients, rounds = 3, 4, 25
	server := redistest.Shared(t)
	s := newStore(t, server.Prefix(t), func(t testing.TB) *redis.Client { return server.Client(t, redistest.Patient) })
	p := startPython(t, server.Socket())
	inPython := make(chan error, 1)
	go func() {
		most, err := p.ask("crowd", request{"name": s.name, "limit": limit, "threads": clients, "rounds": rounds})
		if err == nil && most.(float64) > limit {
			err = fmt.Errorf("in Python: %v were inside with a limit of %d", most, limit)
		}
		inPython <- err
	}()
	var wg sync.WaitGroup
	for range clients {
		sem := newFairUnderLock(t, s.rdb, s.name, limit, classic.WithTimeout(time.Minute), classic.WithClock(time.Now))
		wg.Go(func() { crowdClient(t, s, sem, limit, rounds) })
	}
	wg.Wait()
	noError(t, <-inPython)
	members(t, s, s.name)
}

// crowdClient holds a permit for some rounds, and counts who is inside.
func crowdClient(t *testing.T, s store, sem semaphore, limit int64, rounds int) {
	ctx, inside := t.Context(), s.name+":inside"
	for range rounds {
		id, err := poll(ctx, sem)
		if err != nil {
			t.Error(err)
			return
		}
		if n, err := s.rdb.Incr(ctx, inside).Result(); err != nil || n > limit {
			t.Errorf("%d are inside with a limit of %d (%v)", n, limit, err)
		}
		if err := s.rdb.Decr(ctx, inside).Err(); err != nil {
			t.Error(err)
		}
		if ok, err := sem.Release(ctx, id); !ok || err != nil {
			t.Errorf("Release reported %v, %v", ok, err)
		}
	}
}

// poll tries until there is a permit, as the chapter's clients must.
func poll(ctx context.Context, sem semaphore) (string, error) {
	for {
		if id, ok, err := sem.Acquire(ctx); ok || err != nil {
			return id, err
		}
	}
}
