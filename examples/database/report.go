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
	freshFor = 10 * time.Second // after this time one reader computes it anew
	keptFor  = time.Hour        // until then an old report is better than none
)

// report takes long to compute and is read often.
type report struct {
	cache   *redis.Client
	key     string
	one     *berth.Semaphore // limit 1: its holder computes the report; nil: every reader does
	compute func(context.Context) (string, error)
}

// read returns the report. A fresh one comes from the cache. If it is old, one reader
// computes it and the others get the old one. If there is none, one reader computes it
// and the others wait in line for the result.
func (r *report) read(ctx context.Context) (string, error) {
	old, fresh, err := r.load(ctx)
	if fresh || err != nil {
		return old, err // without the cache every reader would compute, so fail instead
	}
	if r.one == nil {
		return r.renew(ctx)
	}
	var opts []berth.AcquireOption
	if old != "" {
		opts = append(opts, berth.QueueLimit(0)) // there is an old report, so do not wait
	}
	var text string
	err = r.one.Do(ctx, func(ctx context.Context) (err error) {
		// An earlier holder may have computed it while this reader waited.
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

// load returns the report in the cache, "" if there is none, and whether it is fresh,
// which its remaining TTL tells.
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
