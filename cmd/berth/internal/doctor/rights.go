package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// right is one command that berth sends, with arguments that change nothing
// should they ever be executed. K, O and C stand for the throw-away keys and
// its channel.
type right struct {
	command string
	lacks   string // what does without it; empty: nothing works
	where   where
}

// where tells which servers need a right.
type where int

const (
	everywhere where = iota
	alone
	clustered
)

// needed are the rights of docs/operations.md, in its order, but for those that
// Redis gives to everybody (HELLO).
var needed = []right{
	{command: "EVAL return 2 K O"},
	{command: "EVALSHA da39a3ee5e6b4b0d3255bfef95601890afd80709 2 K O"},
	{command: "TIME"},
	{command: "HGET K f"},
	{command: "HMGET K f"},
	{command: "HSET K f v"},
	{command: "HDEL K f"},
	{command: "HLEN K"},
	{command: "EXISTS K"},
	{command: "DEL K O"},
	{command: "ZADD O 1 m"},
	{command: "ZREM O m"},
	{command: "ZCARD O"},
	{command: "ZRANK O m"},
	{command: "ZSCORE O m"},
	{command: "ZRANGE O 0 1"},
	{command: "ZRANGEBYSCORE O 0 1"},
	{command: "ZREMRANGEBYSCORE O 0 1"},
	{command: "PEXPIREAT K 1"},
	{command: "PERSIST K"},
	{command: "PUBLISH C x", where: alone},
	{command: "SPUBLISH C x", where: clustered},
	{command: "SUBSCRIBE C", where: alone},
	{command: "UNSUBSCRIBE C", where: alone},
	{command: "SSUBSCRIBE C", where: clustered},
	{command: "SUNSUBSCRIBE C", where: clustered},
	{command: "PING", lacks: "dead subscriptions are noticed late"},
	{command: "INFO memory", lacks: "keys get no TTL while they matter"},
	{command: "SCAN 0", lacks: "berth ls does not work"},
}

// rights asks the server, command by command, what the user may do. A server
// that does not answer that is judged by the trial of the semaphore alone.
func (p *patient) rights(ctx context.Context) Finding {
	user, err := p.Redis.ACLWhoAmI(ctx).Result()
	if err != nil {
		return p.unknownRights(err)
	}
	_, isCluster := p.Redis.(*redis.ClusterClient)
	var missing, without []string
	for _, r := range needed {
		if r.where == alone && isCluster || r.where == clustered && !isCluster {
			continue
		}
		denied, err := p.denied(ctx, user, r.command)
		if err != nil {
			return p.unknownRights(err)
		}
		name, _, _ := strings.Cut(r.command, " ")
		switch {
		case denied && r.lacks == "":
			missing = append(missing, "+"+strings.ToLower(name))
		case denied:
			without = append(without, fmt.Sprintf("+%s (%s)", strings.ToLower(name), r.lacks))
		}
	}
	const advice = "Give the user the rights in docs/operations.md, keys and channels of the prefix included."
	switch {
	case len(missing) > 0:
		return fail(advice, "user %q may not do what berth needs: %s", user, strings.Join(append(missing, without...), ", "))
	case len(without) > 0:
		return warn(advice, "user %q lacks %s", user, strings.Join(without, ", "))
	}
	return found("user %q may do all that berth needs", user)
}

func (p *patient) unknownRights(err error) Finding {
	why := "not before Redis 7.0"
	if redis.HasErrorPrefix(err, "NOPERM") {
		why = "the user may not ask (+acl|whoami, +acl|dryrun)"
	}
	return found("they could not be read one by one, %s: see whether the semaphore below works", why)
}

// denied asks without executing anything.
func (p *patient) denied(ctx context.Context, user, command string) (bool, error) {
	key := p.Prefix + ":{" + p.own + "}"
	args := []any{"ACL", "DRYRUN", user}
	for word := range strings.FieldsSeq(command) {
		switch word {
		case "K":
			word = key
		case "O":
			word = key + ":order"
		case "C":
			word = p.channel()
		}
		args = append(args, word)
	}
	answer, err := p.Redis.Do(ctx, args...).Text()
	return answer != "OK", err
}
