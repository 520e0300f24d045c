package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/berth-go/berth/examples/internal/postgres"
)

// onAsynq does the jobs with asynq, on the same Redis.
func (d *demo) onAsynq(context.Context) (func(), error) {
	client := asynq.NewClientFromRedisClient(d.store.Client)
	for i := range exports + mails {
		kind := "export"
		if i >= exports {
			kind = "mail"
		}
		if _, err := client.Enqueue(asynq.NewTask(kind, nil), asynq.MaxRetry(1)); err != nil {
			return nil, err
		}
	}
	export := asynq.Handler(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return d.export(ctx) }))
	if d.waits {
		export = asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return d.waiting(ctx) })
	} else {
		export = d.counted(limited(d.sem, export))
	}
	mux := asynq.NewServeMux()
	mux.Handle("export", export)
	mux.HandleFunc("mail", func(context.Context, *asynq.Task) error {
		d.finish(true)
		return nil
	})
	server := asynq.NewServerFromRedisClient(d.store.Client, givingBack(asynq.Config{Concurrency: 4, LogLevel: asynq.FatalLevel}))
	d.start = time.Now()
	return server.Shutdown, server.Start(mux)
}

// counted counts the tasks that are given back.
func (d *demo) counted(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return d.count(next.ProcessTask(ctx, task))
	})
}

func (d *demo) count(err error) error {
	if isLater(err) {
		d.mu.Lock()
		d.backs++
		d.mu.Unlock()
	}
	return err
}

// onRiver does them with River, on a PostgreSQL of its own.
func (d *demo) onRiver(ctx context.Context) (_ func(), err error) {
	server, err := postgres.Open(ctx, "")
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, server.DSN)
	if err != nil {
		server.Close()
		return nil, err
	}
	end := func() {
		pool.Close()
		server.Close()
	}
	stop, err := d.river(ctx, pool)
	if err != nil {
		end()
		return nil, err
	}
	return func() {
		stop()
		end()
	}, nil
}

func (d *demo) river(ctx context.Context, pool *pgxpool.Pool) (stop func(), err error) {
	queue := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(queue, nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &counting{exporter{sem: d.sem, export: func(ctx context.Context, _ int) error { return d.export(ctx) }}, d})
	river.AddWorker(workers, &mailer{d: d})
	client, err := river.NewClient(queue, &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers: workers,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	var all []river.InsertManyParams
	for account := range exports {
		all = append(all, river.InsertManyParams{Args: exportArgs{account}, InsertOpts: &river.InsertOpts{MaxAttempts: 1}})
	}
	for range mails {
		all = append(all, river.InsertManyParams{Args: mailArgs{}})
	}
	if _, err := client.InsertMany(ctx, all); err != nil {
		return nil, err
	}
	d.start = time.Now()
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() { _ = client.Stop(context.WithoutCancel(ctx)) }, nil
}

// counting is an exporter that counts what it gives back, or one that waits.
type counting struct {
	exporter

	d *demo
}

func (w *counting) Work(ctx context.Context, job *river.Job[exportArgs]) error {
	if w.d.waits {
		return w.d.waiting(ctx)
	}
	err := w.exporter.Work(ctx, job)
	if snoozed, ok := err.(*river.JobSnoozeError); ok { //nolint:errorlint // River looks at it so
		w.d.mu.Lock()
		w.d.backs++
		w.d.mu.Unlock()
		return snoozed
	}
	return err
}

type mailArgs struct{}

func (mailArgs) Kind() string { return "mail" }

type mailer struct {
	river.WorkerDefaults[mailArgs]

	d *demo
}

func (m *mailer) Work(context.Context, *river.Job[mailArgs]) error {
	m.d.finish(true)
	return nil
}
