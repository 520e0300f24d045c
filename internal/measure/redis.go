package measure

import (
	"crypto/rand"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrURL says that a URL cannot be used, without any of its words: each of them may be part of a
// password.
var ErrURL = errors.New("it is not a URL such as redis://[user:password@]host[:port][/db], " +
	"rediss://… or unix:///path/to/socket; characters such as # / ? % @ in a password must be percent-encoded")

// ParseURL checks the URL of a Redis. Its error never shows it.
func ParseURL(url string) (*redis.Options, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, ErrURL
	}
	return o, nil
}

// NewPrefix returns what every key of a run has in its name: the beginning, and random letters.
func NewPrefix(beginning string) string { return beginning + strings.ToLower(rand.Text()[:12]) }
