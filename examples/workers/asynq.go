package main

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/berth-go/berth"
)

// limited is a handler whose tasks run under permits of sem, or are given back.
func limited(sem *berth.Semaphore, next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return try(ctx, sem, func(ctx context.Context) error { return next.ProcessTask(ctx, task) })
	})
}

// givingBack says to asynq that such tasks have not failed, and when to try them again. It archives
// a task that is given back when it has used up its retries, so let MaxRetry be 1 at least.
func givingBack(config asynq.Config) asynq.Config {
	config.IsFailure = func(err error) bool { return err != nil && !isLater(err) }
	config.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if l, ok := errors.AsType[*later](err); ok {
			return l.after
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	config.DelayedTaskCheckInterval = time.Second // how often it looks; by default 5 seconds
	return config
}

func isLater(err error) bool {
	_, ok := errors.AsType[*later](err)
	return ok
}
