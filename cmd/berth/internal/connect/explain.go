package connect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// askTimeout bounds the question whether a server that does not know a command is a
// sentinel.
const askTimeout = time.Second

// Explain returns the text of an error of a client of the target, with what to do if that
// is known, and with the server; source is where its URL comes from. It contains no
// password.
func (t *Target) Explain(err error, source string) string {
	text := err.Error()
	if t.kind == sentinel && strings.Contains(text, "all sentinels") && strings.Contains(text, redis.Nil.Error()) {
		text = fmt.Sprintf("the sentinels know no master %q", t.opts.MasterName) // go-redis takes that for sentinels that are away
	} else if advice := t.advice(text); advice != "" {
		text = strings.TrimSuffix(text, ".") + ": " + advice
	} else {
		text = advised(text)
	}
	return fmt.Sprintf("%s (%s, from %s)", text, strings.Join(t.opts.Addrs, ", "), source)
}

// advised returns text with the library's advice, which may be in it already. Host, user and password
// are in the URL.
func advised(text string) string {
	advice := protocol.Advice(text)
	if !strings.Contains(text, advice) {
		text = strings.TrimSuffix(text, ".") + ": " + advice
	}
	if strings.HasPrefix(advice, "check ") {
		text = strings.Replace(text, advice, advice+" in the URL", 1)
	}
	return text
}

// thisIsSentinel is in the doctor's words for one.
const thisIsSentinel = "this is a sentinel"

// advice is what to do about an error with a server of this kind; "": nothing that is known.
func (t *Target) advice(text string) string {
	scheme := "redis"
	if t.tls != nil {
		scheme = "rediss"
	}
	switch {
	case t.tls != nil && (strings.Contains(text, "no answer") || strings.Contains(text, "not answered within")):
		return "if the server does not speak TLS, write redis instead of rediss"
	case t.kind == sentinel && strings.Contains(text, "all sentinels") && strings.Contains(text, "nknown command"):
		return "it is not a sentinel: use " + scheme + "://"
	case t.kind == cluster && strings.Contains(text, "cluster support disabled"):
		return "it is not a Cluster: use " + scheme + "://"
	case t.kind == single && (strings.Contains(text, "nknown command") || strings.Contains(text, thisIsSentinel)):
		if name := t.watched(); name != "" {
			use := fmt.Sprintf("use %s+sentinel://%s/%s", scheme, t.opts.Addrs[0], name)
			if strings.Contains(text, thisIsSentinel) {
				return use
			}
			return thisIsSentinel + ": " + use
		}
	}
	return ""
}

// watched returns the name of a master that the server watches, if it is a sentinel, or "".
func (t *Target) watched() string {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	rdb := t.Client()
	defer rdb.Close()
	role, err := rdb.Do(ctx, "ROLE").Slice()
	if err != nil || len(role) < 2 || role[0] != "sentinel" {
		return ""
	}
	if names, _ := role[1].([]any); len(names) > 0 {
		return fmt.Sprint(names[0])
	}
	return "MASTER"
}
