// Package fleet runs a program's work in several child processes of the same program. A
// child gets its job as JSON and answers with its result.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-go/berth/internal/child"
)

// worker is the role of a child.
const worker = "worker"

// Main runs work and exits if this process is a child of Start; otherwise it does
// nothing. Call it first in main. work's context ends when the parent asks for that or
// dies, and on SIGINT and SIGTERM.
func Main[Job, Result any](work func(context.Context, Job) (Result, error)) {
	if role, _ := child.Role(); role != worker {
		return
	}
	if err := run(work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run[Job, Result any](work func(context.Context, Job) (Result, error)) error {
	var job Job
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return fmt.Errorf("no job: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := child.Until(ctx, os.Stdin)
	defer cancel()
	result, err := work(ctx, job)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Worker is a child process at work.
type Worker[Result any] struct{ *child.Process }

// Start starts a child on job.
func Start[Result, Job any](job Job) (*Worker[Result], error) {
	p, err := child.Again(worker, nil)
	if err != nil {
		return nil, err
	}
	if err := p.Tell(job); err != nil {
		p.Kill()
		return nil, err
	}
	return &Worker[Result]{p}, nil
}

// Wait waits for the child to end and returns its result.
func (w *Worker[Result]) Wait() (result Result, err error) {
	heard := w.Hear(context.Background(), &result)
	if err := errors.Join(w.Process.Wait(), heard); err != nil {
		return result, fmt.Errorf("worker %d: %w", w.Cmd.Process.Pid, err)
	}
	return result, nil
}

// Run runs all jobs at once, each in a child, and returns their results. The result of a
// child that failed is empty. When ctx ends, Run asks the children to end, and they still
// return results.
func Run[Result, Job any](ctx context.Context, jobs []Job) ([]Result, error) {
	workers := make([]*Worker[Result], 0, len(jobs))
	var errs []error
	for _, job := range jobs {
		w, err := Start[Result](job)
		if err != nil {
			errs = append(errs, err)
			for _, w := range workers {
				w.Leave()
			}
			break
		}
		workers = append(workers, w)
		defer context.AfterFunc(ctx, w.Leave)()
	}
	results := make([]Result, len(workers))
	for i, w := range workers {
		var err error
		results[i], err = w.Wait()
		errs = append(errs, err)
	}
	return results, errors.Join(errs...)
}
