package look

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// TestDeleteWhileTheKeysAreApart: a slot is moving. What was refused after one key had gone is
// not known to have changed nothing.
func TestDeleteWhileTheKeysAreApart(t *testing.T) {
	t.Parallel()
	moving, refused := replyError("TRYAGAIN Multiple keys request during rehashing of slot"), replyError("NOPERM no")
	for what, c := range map[string]struct {
		dels  []any
		there bool
		kind  error
	}{
		"both":          {[]any{int64(2)}, true, nil},
		"none":          {[]any{int64(0)}, false, nil},
		"refused":       {[]any{refused}, false, protocol.ErrRejected},
		"apart":         {[]any{moving, int64(1), int64(1)}, true, nil},
		"apart, one":    {[]any{moving, int64(0), int64(1)}, true, nil},
		"apart, none":   {[]any{moving, int64(0), int64(0)}, false, nil},
		"first refused": {[]any{moving, refused}, false, protocol.ErrRejected},
		"then refused":  {[]any{moving, int64(1), refused}, false, protocol.ErrUnknown},
		"then passing":  {[]any{moving, int64(1), moving}, false, protocol.ErrUnknown},
	} {
		s := answered(t, func(cmd redis.Cmder) {
			del, ok := cmd.(once)
			if !ok { // what there is
				cmd.SetErr(redis.Nil)
				return
			}
			answer := c.dels[0]
			c.dels = c.dels[1:]
			if err, failed := answer.(error); failed {
				del.SetErr(err)
			}
			del.SetVal(answer)
		})
		there, err := Delete(t.Context(), s, s.Key("a"))
		if there != c.there || len(c.dels) > 0 || (err == nil) != (c.kind == nil) {
			t.Errorf("%s: %v, %v; %d answers are left", what, there, err, len(c.dels))
		} else if err != nil {
			wantKind(t, err, c.kind, nil)
		}
	}
}
