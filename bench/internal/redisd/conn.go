package redisd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// PoolSize is how many connections every go-redis client may have, whatever it
// is for, unless the URL has another pool_size: one for each goroutine of the
// largest crowd, so that nobody waits for a connection.
const PoolSize = 256

// ErrURL says that a URL cannot be used, without any of its words: each of them
// may be part of a password.
var ErrURL = errors.New("it is not a URL such as redis://[user:password@]host[:port][/db], " +
	"rediss://… or unix:///path/to/socket; characters such as # / ? % @ in a password must be percent-encoded")

// Parse checks a URL. Its error never shows it.
func Parse(url string) (*redis.Options, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, ErrURL
	}
	if o.PoolSize == 0 {
		o.PoolSize = PoolSize
	}
	return o, nil
}

// Client returns a client with default options but for those in the URL and the size of the pool.
// The URL must be one that Parse accepts.
func Client(url string) *redis.Client {
	o, err := Parse(url)
	if err != nil {
		panic(err)
	}
	return redis.NewClient(o)
}

// Ping reports, soon and without the URL's secrets, whether Redis can be used.
func Ping(ctx context.Context, url string) error {
	o, err := Parse(url)
	if err != nil {
		return err
	}
	o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout = -1, 1, 3*time.Second, 3*time.Second
	rdb := redis.NewClient(o)
	defer rdb.Close()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis at %s cannot be used: %w", o.Addr, err)
	}
	return nil
}

// NewPrefix returns what every key of a run begins with, or has after the
// beginning that a peer insists on.
func NewPrefix() string { return "berth-bench-" + strings.ToLower(rand.Text()[:12]) }

// Clean removes every key that has the prefix anywhere in its name, and returns
// how many those were.
func Clean(ctx context.Context, url, prefix string) (n int, err error) {
	rdb := Client(url)
	defer rdb.Close()
	var batch []string
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n += len(batch)
		err := rdb.Unlink(ctx, batch...).Err()
		batch = batch[:0]
		return err
	}
	keys := rdb.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if batch = append(batch, keys.Val()); len(batch) == 500 {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, errors.Join(keys.Err(), flush())
}
