package protocol

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A step that replicas must have: the script and a WAIT travel in one pipeline.

// scripted is a node that answers pipelines by a list of answers, and notes what it got.
type scripted struct {
	answers [][2]any // for the script and for WAIT: a value or an error
	got     [][]any
}

func (*scripted) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
}

func (*scripted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *scripted) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		for _, cmd := range cmds {
			s.got = append(s.got, cmd.Args())
			if cmd.Name() == "asking" {
				continue
			}
			value := answer[0]
			if cmd.Name() == "wait" {
				value = answer[1]
			}
			switch value := value.(type) {
			case error:
				cmd.SetErr(value)
			case string:
				cmd.(onceLine).SetVal(value)
			case int:
				cmd.(once).SetVal(int64(value))
			}
		}
		return nil
	}
}

// replicated are stores before such a node, alone and in a cluster.
func replicated(t *testing.T, answers ...[2]any) map[string]func() (*Store, *scripted) {
	t.Helper()
	return map[string]func() (*Store, *scripted){
		"alone": func() (*Store, *scripted) {
			node := &scripted{answers: answers}
			rdb := redis.NewClient(&redis.Options{MaxRetries: -1})
			t.Cleanup(func() { _ = rdb.Close() })
			rdb.AddHook(node)
			return NewStore(rdb, "berth", "s0", 1, "host"), node
		},
		"cluster": func() (*Store, *scripted) {
			node := &scripted{answers: answers}
			rdb := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{
					{End: 16382, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}},
					{Start: 16383, End: 16383, Nodes: []redis.ClusterNode{{Addr: "[::1]:2"}}},
				}, nil
			}})
			t.Cleanup(func() { _ = rdb.Close() })
			rdb.OnNewNode(func(c *redis.Client) { c.AddHook(node) })
			return NewStore(rdb, "berth", "s0", 1, "host"), node
		},
	}
}

const granted = "5000 0 0 - 0 3 3 -1 0 0 1 1 0 0 1 77 900 0 0 0 - 1 0 77 900"

// TestMostReplicasAreAwaited: of several operations the one that wants most decides, and
// the reply tells how many have it.
func TestMostReplicasAreAwaited(t *testing.T) {
	t.Parallel()
	for name, start := range replicated(t, [2]any{granted + " 7 0 77 5 6 0", 2}) {
		s, node := start()
		ops := []Op{
			{Verb: Acquire, ID: "1", Terms: terms(3), Replicas: 1},
			{Verb: Renew, ID: "2", TTL: time.Second, Replicas: 3},
			{Verb: Renew, ID: "3", TTL: time.Second, Replicas: 2},
		}
		// Renewals come first on the wire.
		node.answers[0][0] = strings.TrimSuffix(granted, "1 0 77 900") + "7 0 77 5 6 0 1 0 77 900"
		reply, err := s.Do(t.Context(), s.Key("name"), 0, ops)
		if err != nil || reply.Replicas != 2 || reply.Unwaited != nil {
			t.Fatalf("%s: %+v, %v", name, reply, err)
		}
		wantCodes(t, resultsOf(ops), Granted, Renewed, Gone)
		if wait := node.got[1]; !reflect.DeepEqual(wait, []any{"wait", 3, int64(500)}) {
			t.Errorf("%s: %v", name, wait)
		}
	}
}

// TestReplicasThatCannotBeCounted: the step was done, and the reply tells that nobody
// knows who has it; but when the connection fails, that is not known of the step either.
func TestReplicasThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	refused := replyError("NOPERM this user has no permissions to run the 'wait' command")
	for name, start := range replicated(t, [2]any{granted, refused}, [2]any{granted, io.EOF}) {
		s, _ := start()
		ops := []Op{{Verb: Acquire, ID: "1", Terms: terms(3), Replicas: 1}}
		reply, err := s.Do(t.Context(), s.Key("name"), 0, ops)
		if err != nil || !errors.Is(reply.Unwaited, refused) || reply.Replicas != 0 || ops[0].Result.Code != Granted {
			t.Errorf("%s: %+v, %v", name, reply, err)
		}
		_, err = s.Do(t.Context(), s.Key("name"), 0, ops)
		wantKind(t, err, ErrUnknown, nil)
	}
}

// TestReplicasOfAServerThatForgotTheScript: the text follows, with another WAIT.
func TestReplicasOfAServerThatForgotTheScript(t *testing.T) {
	t.Parallel()
	unknown := replyError("NOSCRIPT No matching script. Please use EVAL.")
	for name, start := range replicated(t, [2]any{unknown, 0}, [2]any{granted, 1}) {
		s, node := start()
		ops := []Op{{Verb: Acquire, ID: "1", Terms: terms(3), Replicas: 1}}
		if reply, err := s.Do(t.Context(), s.Key("name"), 0, ops); err != nil || reply.Replicas != 1 {
			t.Errorf("%s: %+v, %v", name, reply, err)
		}
		if len(node.got) != 4 || node.got[2][0] != "eval" || node.got[3][0] != "wait" {
			t.Errorf("%s: %v", name, node.got)
		}
	}
}

// TestReplicasOfASlotThatMoved: the node that had the keys says where they are; it did
// nothing, so asking again helps.
func TestReplicasOfASlotThatMoved(t *testing.T) {
	t.Parallel()
	moved, ask := replyError("MOVED 3999 127.0.0.1:6381"), replyError("ASK 3999 127.0.0.1:6381")
	s, _ := replicated(t, [2]any{moved, 0}, [2]any{ask, 0})["cluster"]()
	for range 2 {
		_, err := s.Do(t.Context(), s.Key("name"), 0, []Op{{Verb: Acquire, ID: "1", Terms: terms(3), Replicas: 1}})
		wantKind(t, err, ErrRefused, nil)
		if errors.Is(err, ErrRejected) {
			t.Errorf("%v", err)
		}
	}
}

// TestReplicasOfAKeyThatMoved: while its slot is open, the step and its WAIT go where the
// key is, behind an ASKING.
func TestReplicasOfAKeyThatMoved(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:1", "::1:2"} {
		ask, unknown := replyError("ASK 3999 "+addr), replyError("NOSCRIPT No matching script. Please use EVAL.")
		s, node := replicated(t, [2]any{ask, 0}, [2]any{unknown, 0}, [2]any{granted, 2})["cluster"]()
		ops := []Op{{Verb: Acquire, ID: "1", Terms: terms(3), Replicas: 1}}
		if reply, err := s.Do(t.Context(), s.Key("name"), 0, ops); err != nil || reply.Replicas != 2 {
			t.Errorf("%s: %+v, %v", addr, reply, err)
		}
		var names []any
		for _, args := range node.got {
			names = append(names, args[0])
		}
		if want := []any{"evalsha", "wait", "asking", "evalsha", "wait", "asking", "eval", "wait"}; !reflect.DeepEqual(names, want) {
			t.Errorf("%s: %v", addr, names)
		}
	}
}

// TestWaitLeavesTimeForTheRest: a WAIT never takes more than half of what the call has,
// nor for ever.
func TestWaitLeavesTimeForTheRest(t *testing.T) {
	t.Parallel()
	for left, most := range map[time.Duration]time.Duration{
		time.Hour: mostWait, 100 * time.Millisecond: 50 * time.Millisecond, -time.Second: time.Millisecond,
	} {
		ctx, stop := context.WithTimeout(context.Background(), left)
		if got := waitFor(ctx); got > most || got < time.Millisecond {
			t.Errorf("of %v: %v", left, got)
		}
		stop()
	}
	if got := waitFor(context.Background()); got != mostWait {
		t.Errorf("without an end: %v", got)
	}
}
