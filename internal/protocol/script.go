package protocol

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	_ "embed"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

//go:embed transition.lua
var transition string

// The transition comes in two variants, for servers that evict what carries a TTL
// under memory pressure and for the others: an argument would cost more in each call.
var (
	whereKeysStay  = newScript("local POLICY = '1' " + transition)
	whereKeysMayGo = newScript("local POLICY = '0' " + transition)
)

// script is a Lua script that is called by its hash.
type script struct {
	text string
	sha  any // string: an argument, so that no call makes it one
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// processor executes commands.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// line executes the script and returns its reply, one string; args[0] is "evalsha". Where the
// server does not know the hash (it restarted, or SCRIPT FLUSH), which is a refusal, the text
// follows.
func (sc *script) line(ctx context.Context, rdb processor, args []any) (string, error) {
	cmd := newOnceLine(ctx, args)
	err := rdb.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = newOnceLine(ctx, sc.whole(args))
		err = rdb.Process(ctx, cmd)
	}
	if err != nil {
		return "", classifyCall(err, args)
	}
	return cmd.Val(), nil
}

// whole turns a call by hash into one with the text.
func (sc *script) whole(args []any) []any { return append([]any{"eval", sc.text}, args[2:]...) }

// once and onceLine are commands that go-redis must not repeat by itself: it
// would report success for a script that ran twice.
type (
	once     struct{ *redis.Cmd }
	onceLine struct{ *redis.StringCmd }
)

func newOnce(ctx context.Context, args []any) once { return once{redis.NewCmd(ctx, args...)} }

func newOnceLine(ctx context.Context, args []any) onceLine {
	return onceLine{redis.NewStringCmd(ctx, args...)}
}

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// NoRetry implements redis.Cmder.
func (onceLine) NoRetry() bool { return true }
