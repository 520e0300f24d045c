package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// right is a command that berth sends, with arguments that write nothing, because a user who
// may write may not be allowed to delete. K, O and C stand for the throw-away keys and the
// channel.
type right struct {
	command string
	where   where
	lacks   string // what does without it; empty: nothing works
}

// where tells which servers need a right.
type where int

const (
	everywhere where = iota
	alone
	clustered
)

// needed are the rights of docs/operations.md.
var needed = slices.Concat(
	// The script is "return 1". The server checks the rights before it refuses these arguments of HSET and ZADD.
	vital(everywhere, "EVAL return(1) 0", "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 K",
		"TIME", "HSET K f v g", "HGET K f", "HMGET K f", "HLEN K", "EXISTS K", "PERSIST K", "HDEL K f",
		"ZADD O none m", "ZCARD O", "ZCOUNT O 0 1", "ZRANK O m", "ZSCORE O m", "ZRANGE O 0 1", "ZRANGEBYSCORE O 0 1",
		"ZREM O m", "PEXPIREAT K 1", "DEL K O"),
	vital(alone, "PUBLISH C x", "SUBSCRIBE C"),
	vital(clustered, "SPUBLISH C x", "SSUBSCRIBE C", "CLUSTER SLOTS"),
	[]right{
		{"COMMAND COUNT", clustered, "every call asks for it in vain first"},
		{"PING", everywhere, "dead subscriptions are noticed late"},
		{"INFO memory", everywhere, "keys get no TTL while they matter"},
		{"SCAN 0", everywhere, "berth ls does not work"},
		{"XADD K 0 f v", everywhere, "what operators do is not recorded"}, // 0 is no id
		{"XREVRANGE K + -", everywhere, "berth audit does not work"},
		{"PSUBSCRIBE", alone, "berth top shows no events"},
		{"SUNSUBSCRIBE", clustered, "subscriptions of names that are not used any more stay"},
	},
)

func vital(where where, commands ...string) (all []right) {
	for _, c := range commands {
		all = append(all, right{command: c, where: where})
	}
	return all
}

// name is the right as ACL rules write it.
func (r right) name() string {
	words := strings.Fields(strings.ToLower(r.command))
	if words[0] == "cluster" {
		return "+" + words[0] + "|" + words[1]
	}
	return "+" + words[0]
}

// writes are rights of which a user who only looks has none. Of the others that berth needs, takers
// are those that such a user can do without, by docs/operations.md.
var (
	writes = []string{"+hset", "+hdel", "+zadd", "+zrem", "+del"}
	takers = slices.Concat(writes, []string{
		"+persist", "+pexpireat", "+zrank", "+publish", "+subscribe", "+spublish", "+ssubscribe", "+sunsubscribe", "+xadd", "+info",
	})
)

// readers are commands that a user who only looks can use where a right is missing.
var readers = map[string]right{"+eval": {command: "EVAL_RO return(1) 0"}, "+evalsha": {command: "EVALSHA_RO e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 K"}}

// onlyLooks reports whether a user without these rights is one who only looks.
func (p *patient) onlyLooks(ctx context.Context, missing []string) bool {
	for _, name := range writes {
		if !slices.Contains(missing, name) {
			return false
		}
	}
	return !slices.ContainsFunc(missing, func(name string) bool {
		instead, ok := readers[name]
		return !slices.Contains(takers, name) && (!ok || denied(p.attempt(ctx, instead)))
	})
}

// unchecked is the finding of a check that needs what a user who only looks may not do.
func unchecked(what string) Finding {
	return warn("Run berth doctor as the user of the programs, too.", "not checked: this user may not %s", what)
}

// looker is the finding about a user who only looks, and lacks these other rights.
func looker(advice string, without []string) Finding {
	without = slices.DeleteFunc(without, func(right string) bool {
		name, _, _ := strings.Cut(right, " ")
		return slices.Contains(takers, name)
	})
	if len(without) > 0 {
		return warn(advice, "this user may only look, and lacks %s", strings.Join(without, ", "))
	}
	return found("this user may only look: berth ls, show, top and serve work")
}

// rights tries every command that berth uses as this user, and tells which are denied.
func (p *patient) rights(ctx context.Context, _ node) Finding {
	var missing, without []string
	var said error
	for _, r := range needed {
		if r.where != everywhere && (r.where == clustered) != p.clustered() {
			continue
		}
		err := p.attempt(ctx, r)
		switch name := p.lacking(r, err); {
		case err == nil || !denied(err) && redis.HasErrorPrefix(err, "") && !redis.HasErrorPrefix(err, "CLUSTERDOWN"):
		case !denied(err) && ctx.Err() != nil:
			return warn("The network is slow: try them from a machine nearer to the server.", "there are more rights than could be tried within %v", checkTimeout)
		case !denied(err):
			return untried("The rights could not be tried", "", err)
		case r.lacks != "":
			without = append(without, fmt.Sprintf("%s (%s)", name, r.lacks))
		case !slices.Contains(missing, name):
			missing, said = append(missing, name), err
		}
	}
	advice := fmt.Sprintf("Give the user the rights in docs/operations.md, with ~%s:* and &%[1]s:*.", p.Prefix)
	if p.looks = p.onlyLooks(ctx, missing); p.looks {
		return looker(advice, without)
	}
	switch {
	case len(missing) > 0:
		return fail(advice, "the user may not do what berth needs: %s (%s)", strings.Join(append(missing, without...), ", "), short(said))
	case len(without) > 0:
		return warn(advice, "the user lacks %s", strings.Join(without, ", "))
	}
	return found("the user may do all that berth needs")
}

// attempt executes the command of r.
func (p *patient) attempt(ctx context.Context, r right) error {
	if strings.HasSuffix(r.name(), "subscribe") {
		sub := p.subscribe(ctx)
		if r.name() == "+psubscribe" {
			sub = p.Redis.PSubscribe(ctx, p.Prefix+":*") // as Listen does
		}
		defer sub.Close()
		_, err := sub.Receive(ctx)
		if r.name() == "+sunsubscribe" {
			if err != nil {
				return nil // that is for +ssubscribe to tell
			}
			if err = sub.SUnsubscribe(ctx); err == nil {
				_, err = sub.Receive(ctx)
			}
		}
		return err
	}
	key := p.store().Key(p.own)
	names := map[string]string{"K": key.State, "O": key.Order(), "C": p.channel()}
	var args []any
	for word := range strings.FieldsSeq(r.command) {
		args = append(args, cmp.Or(names[word], word))
	}
	return p.Redis.Do(ctx, args...).Err()
}

// denied reports whether a server denies a command to the user, or has it disabled or renamed for
// all.
func denied(err error) bool {
	return protocol.Denied(err) || err != nil && (strings.Contains(err.Error(), "nknown command") || strings.Contains(err.Error(), "nknown Redis command"))
}

// lacking returns the right that a user who was denied r needs: the command that the server
// names, or that of r, or the key or channel that it was used on.
func (p *patient) lacking(r right, said error) string {
	text := fmt.Sprint(said)
	_, named, _ := strings.Cut(text, "run the '")
	named, _, ok := strings.Cut(named, "' command")
	switch {
	case ok:
		return "+" + named
	case strings.Contains(text, "channel"):
		return "&" + p.Prefix + ":*"
	case strings.Contains(text, " key"):
		return "~" + p.Prefix + ":*"
	}
	return r.name()
}
