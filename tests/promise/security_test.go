package promise_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// tap notes every command that a client sends.
type tap struct {
	mu   sync.Mutex
	sent [][]any
}

func (tp *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (tp *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		tp.note(cmd)
		return next(ctx, cmd)
	}
}

func (tp *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		tp.note(cmds...)
		return next(ctx, cmds)
	}
}

func (tp *tap) note(cmds ...redis.Cmder) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	for _, c := range cmds {
		tp.sent = append(tp.sent, c.Args())
	}
}

// scriptTexts returns the script as the file has it, behind a line that tells the eviction
// policy.
func scriptTexts(t testing.TB) (all []string) {
	t.Helper()
	read := func(file string) string {
		text, err := os.ReadFile("../../internal/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, policy := range []string{"0", "1"} {
		all = append(all, "local POLICY = '"+policy+"' "+read("protocol/transition.lua"))
	}
	return append(all, read("look/look.lua"))
}

// TestScriptsAreConstant: whatever a name or a label looks like, it is data. The
// text of a script is one of the files, and names stand in KEYS alone.
func TestScriptsAreConstant(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		texts := scriptTexts(e)
		p, tp := e.Peer(), &tap{}
		p.Redis.AddHook(tp)
		canary := e.Prefix + "-canary"
		e.Must(e.Redis.Set(e.Ctx, canary, "sings", 0).Err())
		for _, evil := range []string{
			`"]] redis.call("FLUSHALL") --`, `' .. redis.call('SET','x','y') .. '`, "KEYS[1]", "ARGV[1]", "%s%n%d", "*3", "$-1", "1 2 3", "settings", "A", "L",
			"x:order", "h 1 0 5 0 0 o/1/h", "redis.call('DEL',KEYS[1])",
		} {
			s := p.Named(evil, 1)
			l := e.Hold(s, berth.Label(evil))
			r := e.Queue(s, berth.Label(evil))
			st, err := p.Inspector().Show(e.Ctx, evil)
			e.Must(err)
			if st.Leases[0].Label != evil || st.Queue[0].Label != evil {
				e.Errorf("label %q became %q and %q", evil, st.Leases[0].Label, st.Queue[0].Label)
			}
			e.Release(l)
			e.Release(r.Granted())
		}
		if e.Redis.Get(e.Ctx, canary).Val() != "sings" {
			e.Error("somebody else's key is gone")
		}
		tp.check(e, e.Prefix, texts)
		e.Must(e.Redis.Del(e.Ctx, canary).Err())
	})
}

func (tp *tap) check(t testing.TB, prefix string, texts []string) {
	t.Helper()
	tp.mu.Lock()
	defer tp.mu.Unlock()
	scripts := 0
	for _, args := range tp.sent {
		command := fmt.Sprint(args[0])
		if command != "eval" && command != "evalsha" {
			continue
		}
		scripts++
		text := fmt.Sprint(args[1])
		if command == "eval" && !slices.Contains(texts, text) || command == "evalsha" && !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(text) {
			t.Errorf("the script is %.100q", text)
		}
		if key := fmt.Sprint(args[3]); fmt.Sprint(args[2]) != "2" || !strings.HasPrefix(key, prefix+":{") || fmt.Sprint(args[4]) != key+":order" {
			t.Errorf("%v keys: %q, %q", args[2], key, args[4])
		}
	}
	if scripts == 0 {
		t.Error("no script was seen")
	}
}

// TestForeignNamesHideNothing: keys whose names no client can have made, written
// by somebody else under the prefix, keep nobody from seeing the semaphores.
func TestForeignNamesHideNothing(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Sem(1))
		for _, foreign := range []string{"", "\x1b[2J", "a}b", "\xff", "a\u202eb", " "} {
			e.Must(e.Redis.HSet(e.Ctx, e.Prefix+":{"+foreign+"}", "settings", "1 1 -1 0 0", "counts", "0 0 0 0 0 0 0 0").Err())
		}
		before := e.Keys()
		list, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(list) != 1 || list[0].Name != testenv.Name {
			e.Errorf("listed %+v", list)
		}
		for key, value := range e.Keys() {
			if !strings.HasPrefix(key, e.Prefix+":{"+testenv.Name+"}") && before[key] != value {
				e.Errorf("%q became %s", key, value)
			}
		}
	})
}
