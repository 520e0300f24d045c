package berthwatch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// meter is a server's time: each reading and each SCAN takes so long as is set, by its own clock,
// too, if it tells.
type meter struct {
	sample, scan atomic.Int64 // nanoseconds
	busy         atomic.Int64 // what this process takes beside
	mute         atomic.Bool  // the server does not tell
	steps        atomic.Int64 // of a walk through the names; 0 is one
	samples      atomic.Int64 // how many there were
	scans        atomic.Int64
	commands     atomic.Int64 // of all kinds
	spent        atomic.Int64 // all of it
}

func (m *meter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return m.serve([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return m.serve(cmds, func() error { return next(ctx, cmds) })
	}
}

// serve has the server execute commands in its time.
func (m *meter) serve(cmds []redis.Cmder, next func() error) error {
	m.commands.Add(int64(len(cmds)))
	<-time.After(network)
	spent := int64(0)
	switch kind := cmds[len(cmds)/2].Name(); kind {
	case "evalsha":
		m.samples.Add(1)
		spent = m.sample.Load()
	case "scan":
		m.scans.Add(1)
		spent = m.scan.Load()
	}
	m.spent.Add(spent)
	<-time.After(time.Duration(spent))
	err := next()
	<-time.After(time.Duration(m.busy.Load()))
	if scan, ok := cmds[len(cmds)/2].(*redis.ScanCmd); ok && err == nil {
		m.split(scan)
	}
	if before, timed := cmds[0].(*redis.TimeCmd); timed {
		after := cmds[len(cmds)-1].(*redis.TimeCmd)
		after.SetVal(before.Val().Add(time.Duration(spent)))
		if m.mute.Load() {
			after.SetErr(errors.New("ERR unknown command 'time'"))
		}
	}
	return err
}

// split makes a walk take several steps, of which the first finds all.
func (m *meter) split(scan *redis.ScanCmd) {
	keys, _ := scan.Val()
	at, _ := strconv.ParseInt(fmt.Sprint(scan.Args()[1]), 10, 64)
	next := at + 1
	if next >= m.steps.Load() {
		next = 0
	}
	scan.SetVal(keys, uint64(next))
}

// network is what it takes beside.
const network = 10 * time.Millisecond

// start runs a sampler over n semaphores.
func start(e *testenv.Env, n int, change func(*Options)) (*Sampler, *meter) {
	for i := range n {
		e.Must(e.Inspector.Pin(e.Ctx, fmt.Sprint("n", i), 5))
	}
	connect(e, 4)
	m := &meter{}
	e.Redis.AddHook(m)
	o := Options{}
	if change != nil {
		change(&o)
	}
	return run(e, e.Inspector.Inspector, o), m
}

// connect fills the pool: a call that must connect first takes longer, and which one that is
// would be a matter of luck.
func connect(e *testenv.Env, n int) {
	e.Helper()
	var conns []*redis.Conn
	for range n {
		c := e.Redis.Conn()
		e.Must(c.Ping(e.Ctx).Err())
		conns = append(conns, c)
	}
	for _, c := range conns {
		e.Must(c.Close())
	}
}

func run(e *testenv.Env, in *berthadmin.Inspector, o Options) *Sampler {
	s := New(in, o)
	ctx, stop := context.WithCancel(e.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	e.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// lookFor looks four times a second for so long.
func lookFor(e *testenv.Env, s *Sampler, d time.Duration) View {
	v, _ := lookAt(e, s, "", d)
	return v
}

// lookAt looks at one semaphore in full, too, unless its name is "".
func lookAt(e *testenv.Env, s *Sampler, name string, d time.Duration) (v View, detail Detail) {
	for end := time.Now().Add(d); ; e.Pass(250 * time.Millisecond) {
		v = s.Look()
		if name != "" {
			detail = s.Detail(name)
		}
		if !time.Now().Before(end) {
			return v, detail
		}
	}
}
