// Package rules has the bounds of arguments that several packages check. Each function
// returns what is wrong with its argument and what to give instead, or "" if it is
// right; the caller makes an error of it in words of its own.
package rules

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// Context refuses nil.
func Context(ctx context.Context) string {
	if ctx == nil {
		return "it is nil"
	}
	return ""
}

// Client refuses what is no client of go-redis, or one on which a semaphore could change
// its server.
func Client(rdb redis.UniversalClient) string {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return "it is nil"
	}
	switch rdb.(type) {
	case *redis.Client, *redis.ClusterClient:
		return ""
	case *redis.Ring:
		return "a Ring forgets keys when its shards change: use one of its servers, or a Cluster"
	}
	return fmt.Sprintf("a %T hides whether it is a Cluster: give the go-redis client in it, with its hooks", rdb)
}

// Limit refuses limits outside least to most.
func Limit(limit, least, most int) string {
	if limit < least || limit > most {
		return fmt.Sprintf("%d is outside %d to %d", limit, least, most)
	}
	return ""
}

// Name refuses names of more than most bytes, and those that would be unsafe in a key, a
// channel or on a screen. Braces would change the hash tag: "{NAME}" must end where NAME
// ends, or the semaphore's keys fall into different slots of a Redis Cluster.
func Name(name string, most int) string {
	if name == "" {
		return "it is empty"
	}
	for _, r := range name {
		if r == '{' || r == '}' {
			return "braces are reserved for the Redis Cluster hash tag"
		}
	}
	return Text(name, most)
}

// Text bounds what is stored for people to read: valid UTF-8 of at most so many bytes
// that cannot rearrange a terminal.
func Text(s string, most int) string {
	if len(s) > most {
		return fmt.Sprintf("%d bytes are more than %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return "it is not valid UTF-8"
	}
	blank := s != ""
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Sprintf("it contains the control character %U", r)
		}
		blank = blank && unicode.IsSpace(r)
	}
	if blank {
		return "it is blank"
	}
	return ""
}

// Key bounds the key of a tenant: characters that are visible one by one.
func Key(key string, most int) string {
	if n := utf8.RuneCountInString(key); n < 1 || n > most {
		return fmt.Sprintf("a key of %d characters is outside 1 to %d", n, most)
	}
	for _, r := range key {
		if unicode.IsSpace(r) {
			return fmt.Sprintf("its key contains the space %U", r)
		}
	}
	return Text(key, utf8.UTFMax*most)
}

// Prefix bounds the prefix of keys and channels.
func Prefix(prefix string) string {
	if prefix == "" || len(prefix) > 64 {
		return fmt.Sprintf("%d bytes are outside 1 to 64", len(prefix))
	}
	for _, r := range prefix {
		if r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' || r == ':' || r == '-') {
			return fmt.Sprintf("%q is not a letter, a digit or one of . _ : -", r)
		}
	}
	return ""
}

// id is what the ids of leases and requests look like.
var id = regexp.MustCompile(`^[a-z2-7]{8}\.[a-z2-7]{18}(-[a-z0-9]{1,13})?$`)

// ID refuses what cannot be the id of a lease or of a request.
func ID(s string) string {
	if !id.MatchString(s) {
		return fmt.Sprintf("%.40q is not a lease id", s)
	}
	return ""
}
