package main

import (
	"context"
	"errors"

	"github.com/riverqueue/river"

	"github.com/berth-go/berth"
)

// exportArgs are the arguments of a job that calls an API which allows so many calls at once.
type exportArgs struct {
	Account int `json:"account"`
}

func (exportArgs) Kind() string { return "export" }

// exporter works on such jobs, or gives them back. River counts no attempt for a snooze.
type exporter struct {
	river.WorkerDefaults[exportArgs]

	sem    *berth.Semaphore
	export func(ctx context.Context, account int) error
}

func (w *exporter) Work(ctx context.Context, job *river.Job[exportArgs]) error {
	err := try(ctx, w.sem, func(ctx context.Context) error { return w.export(ctx, job.Args.Account) })
	if l, ok := errors.AsType[*later](err); ok {
		return river.JobSnooze(l.after)
	}
	return err
}
