// Package redisd makes the connections of the benchmarks, and removes their keys.
package redisd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/internal/measure"
)

// PoolSize is the size of every go-redis client's pool, unless the URL sets pool_size:
// one connection for each goroutine of the largest scenario, so that none waits for a
// connection.
const PoolSize = 256

// parse parses a URL. Its error never shows the URL.
func parse(url string) (*redis.Options, error) {
	o, err := measure.ParseURL(url)
	if err == nil && o.PoolSize == 0 {
		o.PoolSize = PoolSize
	}
	return o, err
}

// Client returns a client with default options, except for those in the URL and the size of the
// pool. The URL must be one that Ping accepts.
func Client(url string) *redis.Client {
	o, err := parse(url)
	if err != nil {
		panic(err)
	}
	return redis.NewClient(o)
}

// Ping reports, soon and without the URL's secrets, whether Redis can be used.
func Ping(ctx context.Context, url string) error {
	o, err := parse(url)
	if err != nil {
		return measure.Errorf(measure.Usage, "the URL of --redis cannot be used: %w", err)
	}
	o.MaxRetries, o.DialerRetries, o.DialTimeout, o.ReadTimeout = -1, 1, 3*time.Second, 3*time.Second
	rdb := redis.NewClient(o)
	defer rdb.Close()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return measure.Errorf(measure.Unavailable, "redis at %s cannot be used: %w", o.Addr, err)
	}
	return nil
}

// Clean removes every key that has the prefix anywhere in its name, and returns the
// number of removed keys.
func Clean(ctx context.Context, rdb *redis.Client, prefix string) (n int, err error) {
	var keys []string
	found := rdb.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	for batch := range slices.Chunk(keys, 500) {
		if err := rdb.Unlink(ctx, batch...).Err(); err != nil {
			return n, errors.Join(found.Err(), err)
		}
		n += len(batch)
	}
	return n, found.Err()
}
