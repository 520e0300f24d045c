package measure

import (
	"crypto/rand"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrURL says that a URL cannot be used. It quotes no part of it, because that might be a part of a
// password.
var ErrURL = errors.New("it is not a URL such as redis://[user:password@]host[:port][/db], " +
	"rediss://… or unix:///path/to/socket; characters such as # / ? % @ in a password must be percent-encoded")

// ParseURL parses the URL of a Redis. Its error never shows the URL.
func ParseURL(url string) (*redis.Options, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, ErrURL
	}
	return o, nil
}

// NewPrefix returns the prefix of a run's keys: the beginning, and random letters.
func NewPrefix(beginning string) string { return beginning + strings.ToLower(rand.Text()[:12]) }
