package look

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// TestWaysToAsk: the text follows where the server does not know the hash; commands that only read
// are for users who may not use the others, and are remembered; and who may use none of them hears
// the first refusal.
func TestWaysToAsk(t *testing.T) {
	t.Parallel()
	const (
		yes     = ""
		unknown = "NOSCRIPT No matching script."
		denied  = "NOPERM User u has no permissions to run the 'evalsha' command"
		never   = "ERR unknown command 'evalsha_ro'"
	)
	for what, c := range map[string]struct {
		says map[string]string
		want []string // the commands of two looks
		err  string
	}{
		"known":            {map[string]string{}, []string{"evalsha", "evalsha"}, ""},
		"unknown":          {map[string]string{"evalsha": unknown}, []string{"evalsha", "eval", "evalsha", "eval"}, ""},
		"reader":           {map[string]string{"evalsha": denied}, []string{"evalsha", "evalsha_ro", "evalsha_ro"}, ""},
		"reader, unknown":  {map[string]string{"evalsha": denied, "evalsha_ro": unknown}, []string{"evalsha", "evalsha_ro", "eval_ro", "evalsha_ro", "eval_ro"}, ""},
		"only by hash":     {map[string]string{"evalsha": unknown, "eval": denied}, []string{"evalsha", "eval", "evalsha_ro", "evalsha_ro"}, ""},
		"nobody":           {map[string]string{"evalsha": denied, "evalsha_ro": "NOPERM no evalsha_ro"}, []string{"evalsha", "evalsha_ro", "evalsha", "evalsha_ro"}, denied},
		"nobody, Redis 6":  {map[string]string{"evalsha": denied, "evalsha_ro": never}, []string{"evalsha", "evalsha_ro", "evalsha", "evalsha_ro"}, denied},
		"refused":          {map[string]string{"evalsha": "ERR no"}, []string{"evalsha", "evalsha"}, "ERR no"},
		"damaged, reader":  {map[string]string{"evalsha": denied, "evalsha_ro": "WRONGTYPE no"}, []string{"evalsha", "evalsha_ro", "evalsha", "evalsha_ro"}, "WRONGTYPE no"},
		"does not know it": {map[string]string{"evalsha": unknown, "eval": unknown}, []string{"evalsha", "eval", "evalsha", "eval"}, unknown},
	} {
		t.Run(what, func(t *testing.T) {
			var sent []string
			s := answered(t, func(cmd redis.Cmder) {
				sent = append(sent, cmd.Name())
				if said := c.says[cmd.Name()]; said != yes {
					cmd.SetErr(replyError(said))
				} else {
					cmd.(*redis.Cmd).SetVal(head())
				}
			})
			r := New(s)
			for range 2 {
				_, err := r.Inspect(t.Context(), s.Key("name"), false)
				if f, _ := errors.AsType[*protocol.Failure](err); (err != nil) != (c.err != "") || f != nil && f.Err.Error() != c.err {
					t.Errorf("%v, want %q", err, c.err)
				}
			}
			if !slices.Equal(sent, c.want) {
				t.Errorf("sent %v, want %v", sent, c.want)
			}
		})
	}
}

// TestOneOfMany: of several semaphores in a pipeline only those are asked for again that were
// refused.
func TestOneOfMany(t *testing.T) {
	t.Parallel()
	asked := map[string][]string{}
	s := answered(t, func(cmd redis.Cmder) {
		key := fmt.Sprint(cmd.Args()[3])
		asked[key] = append(asked[key], cmd.Name())
		switch said := map[string]string{
			"evalsha berth:{a}": "NOSCRIPT", "evalsha berth:{b}": "NOPERM", "evalsha berth:{d}": "LOADING",
		}[cmd.Name()+" "+key]; {
		case said != "":
			cmd.SetErr(replyError(said))
		default:
			cmd.(*redis.Cmd).SetVal(head())
		}
	})
	var keys []protocol.Key
	for _, name := range []string{"a", "b", "c", "d"} {
		keys = append(keys, s.Key(name))
	}
	in := New(s).Inspection(keys, true)
	if in.Next(t.Context()) {
		t.Error("there is more")
	}
	for i, found := range in.Found() {
		if (found.Err != nil) != (i == 3) {
			t.Errorf("%s: %v", keys[i].State, found.Err)
		}
	}
	want := map[string][]string{"berth:{a}": {"evalsha", "eval"}, "berth:{b}": {"evalsha", "evalsha_ro"}, "berth:{c}": {"evalsha"}, "berth:{d}": {"evalsha"}}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}
