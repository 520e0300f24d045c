package look_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// lag is a process, or a network, in which every answer comes so much later.
type lag time.Duration

func (lag) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (l lag) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer l.wait()
		return next(ctx, cmd)
	}
}

func (l lag) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer l.wait()
		return next(ctx, cmds)
	}
}

func (l lag) wait() { <-time.After(time.Duration(l)) }

// TestLiveTellsTheServersTime, and not what the network and this process take.
func TestLiveTellsTheServersTime(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		var names []string
		for i := range 250 {
			names = append(names, fmt.Sprint("n", i))
			e.Must(e.Inspector.Pin(e.Ctx, names[i], 1))
		}
		p := e.Peer()
		if e.Exact {
			p.Redis.AddHook(lag(time.Second))
		}
		begun, calls, spent := time.Now(), 0, time.Duration(0)
		in := p.Inspector().Live(func(d time.Duration) { calls, spent = calls+1, spent+d })
		for _, o := range []berthadmin.SampleOptions{{}, {Records: true}} {
			for _, err := range in.Sample(e.Ctx, names[:25], o) {
				e.Must(err)
			}
		}
		for cursor := ""; calls < 5; {
			_, next, err := in.Names(e.Ctx, cursor, 100)
			e.Must(err)
			cursor = next
		}
		took := time.Since(begun)
		switch {
		case e.Exact && (spent > 0 || took < 5*time.Second): // its server takes no time, and its network does
			t.Errorf("the server took %v of %v", spent, took)
		case !e.Exact && (spent <= 0 || spent > took):
			t.Errorf("the server took %v of %v", spent, took)
		}
	})
}

// TestLiveWaitsForLateAnswers, which others give up.
func TestLiveWaitsForLateAnswers(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Must(e.Inspector.Pin(e.Ctx, "a", 1))
		p := e.Peer()
		in := p.Inspector()
		e.Must(in.Ping(e.Ctx))
		p.Redis.AddHook(lag(2500 * time.Millisecond))
		for _, err := range in.Sample(e.Ctx, []string{"a"}, berthadmin.SampleOptions{}) {
			e.WantErr(err, berth.ErrUnreachable)
		}
		for _, err := range in.Live(nil).Sample(e.Ctx, []string{"a"}, berthadmin.SampleOptions{}) {
			e.Must(err)
		}
		_, _, err := in.Names(e.Ctx, "", 100)
		e.WantErr(err, berth.ErrUnreachable)
		_, _, err = in.Live(nil).Names(e.Ctx, "", 100)
		e.Must(err)
	})
}
