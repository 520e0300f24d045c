package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/quantile"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// The benchmarks measure programs that use an agent, a process of its own, beside Go programs
// that use the same Redis without one, in the same run. What counts is the ratio.

// desk is an agent's process and a Redis.
type desk struct {
	*testing.B
	env  *testenv.Bench
	path string
	pid  int
}

func newDesk(b *testing.B) *desk {
	b.Helper()
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	env := testenv.NewBench(b)
	path := filepath.Join(dir, "a", "agent.sock")
	agent, _ := startAgent(b, agentConfig{Path: path, Network: "tcp", Addr: env.Redis.Options().Addr, Prefix: env.Prefix})
	return &desk{b, env, path, agent.Cmd.Process.Pid}
}

// visitor is a request, as a client in another language makes it.
type visitor struct {
	conn  *net.UnixConn
	lines *bufio.Reader
}

// visit asks, and reads to the line with this event.
func (d *desk) visit(body, event string) (*visitor, error) {
	conn, err := net.Dial("unix", d.path)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, post(body)); err != nil {
		return nil, err
	}
	v := &visitor{conn.(*net.UnixConn), bufio.NewReaderSize(conn, 1024)}
	return v, v.wants(event)
}

// wants reads to the line with this event.
func (v *visitor) wants(event string) error {
	for {
		line, err := v.lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		var e struct{ Event, Error string }
		switch {
		case line[0] != '{':
		case json.Unmarshal(line, &e) != nil, e.Error != "", e.Event == "lost":
			return errors.New(string(line))
		case e.Event == event:
			return nil
		}
	}
}

// leave gives the permit back and waits for it.
func (v *visitor) leave() error {
	defer v.conn.Close()
	if err := v.conn.CloseWrite(); err != nil {
		return err
	}
	return v.wants("released")
}

func (d *desk) pair(body string) {
	v, err := d.visit(body, "granted")
	if err == nil {
		err = v.leave()
	}
	if err != nil {
		d.Error(err)
	}
}

func goPair(b *testing.B, sem *berth.Semaphore) {
	lease, err := sem.Acquire(b.Context())
	if err == nil {
		err = lease.Release()
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkAgentPair is the acquire and the release of one program, and of 16 at once: through
// the agent, and in Go.
func BenchmarkAgentPair(b *testing.B) {
	d := newDesk(b)
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("go/%d", n), func(b *testing.B) {
			sem := d.env.Semaphore(b, "pair", 100)
			goPair(b, sem)
			testenv.Spread(b, n, func(int) { goPair(b, sem) })
		})
		b.Run(fmt.Sprintf("agent/%d", n), func(b *testing.B) {
			d := &desk{b, d.env, d.path, d.pid}
			d.pair(`{"name":"pair","limit":100}`)
			testenv.Spread(b, n, func(int) { d.pair(`{"name":"pair","limit":100}`) })
		})
	}
}

// BenchmarkAgentHandoff is the time from a release, by closing the connection, to the grant to
// the waiter: through the agent, and from one Go program to another.
func BenchmarkAgentHandoff(b *testing.B) {
	d := newDesk(b)
	b.Run("go", func(b *testing.B) {
		sems := []*berth.Semaphore{d.env.Semaphore(b, "baton", 1), d.env.Semaphore(b, "baton", 1)}
		hold := func(i int, opts ...berth.AcquireOption) (func(), error) {
			lease, err := sems[i%2].Acquire(context.Background(), opts...)
			return func() { _ = lease.Release() }, err
		}
		relay(b, func() (func(), error) { return hold(1) }, func(i int, queued chan<- struct{}) (func(), error) {
			return hold(i, berth.OnQueued(func(berth.Place) { close(queued) }))
		})
	})
	b.Run("agent", func(b *testing.B) {
		const body = `{"name":"baton","limit":1}`
		first := func() (func(), error) {
			v, err := d.visit(body, "granted")
			return func() { v.conn.Close() }, err
		}
		relay(b, first, func(_ int, queued chan<- struct{}) (func(), error) {
			v, err := d.visit(body, "queued")
			if err != nil {
				return nil, err
			}
			close(queued)
			return func() { v.conn.Close() }, v.wants("granted")
		})
	})
}

// relay passes a permit on, again and again: first takes it, take waits in the queue, and both
// return what gives it back.
func relay(b *testing.B, first func() (leave func(), err error), take func(i int, queued chan<- struct{}) (leave func(), err error)) {
	const pause = 3 * time.Millisecond // as in the benchmarks of the library
	type grant struct {
		leave func()
		at    time.Time
	}
	var took []time.Duration
	leave, err := first()
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		queued, got := make(chan struct{}), make(chan grant)
		go func() {
			leave, err := take(i, queued)
			if err != nil {
				b.Error(err)
			}
			got <- grant{leave, time.Now()}
		}()
		<-queued
		<-time.After(pause)
		start := time.Now()
		go leave()
		g := <-got
		took, leave = append(took, g.at.Sub(start)), g.leave
	}
	leave()
	slices.Sort(took)
	b.ReportMetric(float64(quantile.Of(took, 0.5).Microseconds()), "p50-us")
	b.ReportMetric(float64(quantile.Of(took, 0.99).Microseconds()), "p99-us")
}

// BenchmarkAgentHolds is the memory of an agent with 10,000 holds, beside that without any, and
// the CPU that it needs for ten seconds of nothing.
func BenchmarkAgentHolds(b *testing.B) {
	const many = 10000
	d := newDesk(b)
	d.pair(`{"name":"one"}`) // it is connected
	idle := d.memory()
	before := d.cpu()
	<-time.After(10 * time.Second)
	rest := d.cpu() - before
	for b.Loop() {
		all := make([]*visitor, many)
		var asked sync.WaitGroup
		for w := range 16 {
			asked.Go(func() {
				for i := w; i < many; i += 16 {
					v, err := d.visit(fmt.Sprintf(`{"name":"many-%d","limit":%d,"ttl_ms":60000}`, i%100, many), "granted")
					if err != nil {
						b.Error(err)
						return
					}
					v.lines, all[i] = nil, v
				}
			})
		}
		asked.Wait()
		b.ReportMetric(float64(rest.Milliseconds()), "idle-cpu-ms/10s")
		b.ReportMetric(float64(d.memory())/1e6, "MB")
		b.ReportMetric(float64(d.memory()-idle)/many, "B/hold")
		for _, v := range all {
			if v != nil {
				v.conn.Close()
			}
		}
	}
}

// memory is what the agent has resident.
func (d *desk) memory() int {
	d.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.pid))
	if err != nil {
		d.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		d.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// cpu is how long the agent has computed.
func (d *desk) cpu() time.Duration {
	d.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.pid))
	if err != nil {
		d.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			d.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
