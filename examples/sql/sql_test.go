package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	program.Worker(work) // the worker processes are this binary
	redistest.Main(m)
}

const (
	mostQueries = 4
	mostOpen    = 8
	allowed     = 14 // by the server: the test's own, and those that are about to end
)

// TestFourProcessesKeepTheLimits: four processes, whose pools are together larger than what the
// PostgreSQL allows, query it, begin transactions, and give queries up. One is killed, and Redis fails
// over. At no time more queries are at work than the limit allows, and no connection is refused.
func TestFourProcessesKeepTheLimits(t *testing.T) {
	t.Parallel()
	server, err := postgres.Open(t.Context(), "", fmt.Sprint("max_connections=", allowed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	master := redistest.Start(t, redistest.WithTCP())
	replica := redistest.StartReplica(t, master)
	redis := newRelay(t, master.Addr())
	fleet := start(t, job{
		DSN: server.DSN, Redis: "redis://" + redis.addr(), Phase: t.Name(), Clients: 8, Tell: true,
		Queries: mostQueries, Connections: mostOpen, TTL: 20 * time.Second, Replicas: 1,
	})

	fleet.goOn()
	fleet.kill()
	fleet.goOn()
	master.Kill()
	replica.Promote(t)
	redistest.StartReplica(t, replica) // which grants need from now on
	redis.turn(replica.Addr())
	fleet.goOn()

	all := fleet.end()
	t.Logf("%+v", all)
	if all.AtOnce != mostQueries {
		t.Errorf("%d queries at once, want %d", all.AtOnce, mostQueries)
	}
	if all.Odd != "" {
		t.Errorf("a query failed otherwise than for lack of a permit: %s", all.Odd)
	}
	if all.Refused > 0 || all.Open <= mostQueries || all.Open >= allowed {
		t.Errorf("%d connections were open, with a limit of %d, and %d refused", all.Open, mostOpen, all.Refused)
	}
}

// fleet is four worker processes.
type fleet struct {
	t       *testing.T
	workers []*child.Process
	conn    *pgx.Conn // the test's own
}

func start(t *testing.T, j job) *fleet {
	t.Helper()
	f := &fleet{t: t}
	var err error
	if f.conn, err = pgx.Connect(t.Context(), j.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.conn.Close(context.Background()) })
	if _, err := f.conn.Exec(t.Context(), "CREATE TABLE done (process int)"); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		p, err := program.Start(j)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		f.workers = append(f.workers, p)
	}
	return f
}

// goOn waits until each process has done some more transactions.
func (f *fleet) goOn() {
	f.t.Helper()
	for _, p := range f.workers {
		for before, now := f.done(p), 0; now < before+20; now = f.done(p) {
			select {
			case <-p.Done():
				f.t.Fatal("a worker has ended")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

func (f *fleet) done(p *child.Process) (n int) {
	f.t.Helper()
	if err := f.conn.QueryRow(f.t.Context(), "SELECT count(*) FROM done WHERE process = $1", p.Cmd.Process.Pid).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// kill kills a process, with -9.
func (f *fleet) kill() {
	f.workers[0].Kill()
	<-f.workers[0].Done()
	f.workers = f.workers[1:]
}

// end asks the processes to end, and returns what they have seen.
func (f *fleet) end() (all result) {
	f.t.Helper()
	for _, p := range f.workers {
		p.Leave()
	}
	for _, p := range f.workers {
		var r result
		if err := p.Hear(context.Background(), &r); err != nil {
			f.t.Fatal(err)
		}
		all.add(r)
	}
	return all
}

// relay is an address that leads to a Redis, as that of a load balancer.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	to       string
	open     map[net.Conn]bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, to: to, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.carry(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		r.turn("")
		all.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// carry joins a client's connection with one of the Redis.
func (r *relay) carry(client net.Conn) {
	defer client.Close()
	r.mu.Lock()
	to := r.to
	r.open[client] = true
	r.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	io.Copy(client, server)
}

// turn lets the address lead to another Redis, and closes the connections to the last one.
func (r *relay) turn(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	for client := range r.open {
		client.Close()
	}
	clear(r.open)
}

func TestExampleShowsTheDifference(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), &out, job{Redis: redistest.Shared(t).URL(), Clients: 8, Rounds: 6, Queries: 2}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("it wrote\n%s", &out)
	}
	if f := strings.Fields(lines[4]); f[0] != "berthsql" || f[3] != "0" || f[4] != "2" {
		t.Errorf("with a limit of 2: %q", lines[4])
	}
	if f := strings.Fields(lines[3]); f[4] == "0" {
		t.Errorf("without a limit nothing was refused: %q", lines[3])
	}
	if err := run(t.Context(), &out, job{Clients: 0}); err == nil {
		t.Error("no clients are no error")
	}
}
