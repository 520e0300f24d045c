package main

import (
	"context"
	"encoding/json"
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

// stored is a report in the cache.
type stored struct {
	Text  string    `json:"text"`
	Until time.Time `json:"until"` // clocks that differ cost a computation, no more
}

func (s stored) fresh() bool { return time.Now().Before(s.Until) }

// read returns the report. Where it is fresh, that costs one GET. Where it is
// old, one reader computes it and the others are served the old one. Where there
// is none, one computes it and the others wait in line for the result.
func (r *report) read(ctx context.Context) (string, error) {
	old, err := r.load(ctx)
	if err == nil && old.fresh() {
		return old.Text, nil
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", err // without the cache everybody would compute: fail closed
	}
	if r.one == nil {
		return r.renew(ctx)
	}
	var opts []berth.AcquireOption
	if err == nil {
		opts = append(opts, berth.QueueLimit(0)) // there is something to serve: do not wait
	}
	var text string
	err = r.one.Do(ctx, func(ctx context.Context) error {
		text, err = r.readAlone(ctx)
		return err
	}, opts...)
	if errors.Is(err, berth.ErrQueueFull) {
		return old.Text, nil
	}
	return text, err
}

// readAlone looks again first: whoever had the permit before may have computed
// the report while we waited.
func (r *report) readAlone(ctx context.Context) (string, error) {
	if s, err := r.load(ctx); err == nil && s.fresh() {
		return s.Text, nil
	}
	return r.renew(ctx)
}

func (r *report) renew(ctx context.Context) (string, error) {
	text, err := r.compute(ctx)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(stored{text, time.Now().Add(freshFor)})
	if err != nil {
		return "", err
	}
	return text, r.cache.Set(ctx, r.key, raw, keptFor).Err()
}

// load returns what is in the cache, redis.Nil for nothing usable.
func (r *report) load(ctx context.Context) (s stored, err error) {
	raw, err := r.cache.Get(ctx, r.key).Bytes()
	if err != nil {
		return s, fmt.Errorf("the cache: %w", err)
	}
	if json.Unmarshal(raw, &s) != nil {
		return s, redis.Nil // somebody else's; the next report replaces it
	}
	return s, nil
}
