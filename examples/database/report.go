package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
)

const (
	freshFor = 10 * time.Second // then one reader computes it anew
	keptFor  = time.Hour        // an old report is better than none for so long
)

// report is something that takes long to compute and is read all the time.
type report struct {
	cache   *redis.Client
	key     string
	one     *berth.Semaphore // limit 1: who holds it computes; nil: everybody does
	compute func(context.Context) (string, error)
}

// read returns the report. Where it is fresh, that costs one look at the cache. Where
// it is old, one reader computes it and the others are served the old one. Where there
// is none, one computes it and the others wait in line for the result.
func (r *report) read(ctx context.Context) (string, error) {
	old, fresh, err := r.load(ctx)
	if fresh || err != nil {
		return old, err // without the cache everybody would compute: fail closed
	}
	if r.one == nil {
		return r.renew(ctx)
	}
	var opts []berth.AcquireOption
	if old != "" {
		opts = append(opts, berth.QueueLimit(0)) // there is something to serve: do not wait
	}
	var text string
	err = r.one.Do(ctx, func(ctx context.Context) (err error) {
		// Whoever had the permit before may have computed it while we waited.
		if text, fresh, err = r.load(ctx); !fresh && err == nil {
			text, err = r.renew(ctx)
		}
		return err
	}, opts...)
	if errors.Is(err, berth.ErrQueueFull) {
		return old, nil
	}
	return text, err
}

func (r *report) renew(ctx context.Context) (string, error) {
	text, err := r.compute(ctx)
	if err != nil {
		return "", err
	}
	return text, r.cache.Set(ctx, r.key, text, keptFor).Err()
}

// load returns what is in the cache, "" for nothing. The time that it has left tells
// how old it is.
func (r *report) load(ctx context.Context) (text string, fresh bool, err error) {
	var left *redis.DurationCmd
	var get *redis.StringCmd
	_, err = r.cache.Pipelined(ctx, func(p redis.Pipeliner) error {
		left, get = p.PTTL(ctx, r.key), p.Get(ctx, r.key)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", false, fmt.Errorf("the cache: %w", err)
	}
	return get.Val(), left.Val() > keptFor-freshFor, nil
}
