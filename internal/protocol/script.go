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

// slice executes the script and returns its reply, a list.
func (sc *script) slice(ctx context.Context, rdb processor, args []any) ([]any, error) {
	cmd, err := process(ctx, sc, rdb, args, newOnce)
	if err != nil {
		return nil, err
	}
	return list(cmd.Cmd)
}

// list returns the reply of a script that was executed, a list.
func list(cmd *redis.Cmd) ([]any, error) {
	if err := cmd.Err(); err != nil {
		return nil, classify(err)
	}
	fields, err := cmd.Slice()
	if err != nil {
		return nil, &Failure{Kind: ErrUnknown, Err: err}
	}
	return fields, nil
}

// line executes the script and returns its reply, one string.
func (sc *script) line(ctx context.Context, rdb processor, args []any) (string, error) {
	cmd, err := process(ctx, sc, rdb, args, newOnceLine)
	if err != nil {
		return "", err
	}
	return cmd.Val(), nil
}

// process executes the script as a command that command makes; args[0] is "evalsha".
// Where the server does not know the hash (it restarted, or SCRIPT FLUSH), which
// is a refusal, the text follows.
func process[C redis.Cmder](
	ctx context.Context, sc *script, rdb processor, args []any, command func(context.Context, []any) C,
) (C, error) {
	cmd := command(ctx, args)
	err := rdb.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd = command(ctx, sc.whole(args))
		err = rdb.Process(ctx, cmd)
	}
	if err != nil {
		return cmd, classifyCall(err, args)
	}
	return cmd, nil
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
