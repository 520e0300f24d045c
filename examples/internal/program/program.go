// Package program runs an example, and its work in several child processes of the same
// program. A child gets its job as JSON and answers with its result.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/berth-go/berth/internal/child"
)

// worker is the role of a child.
const worker = "worker"

// Run runs f with a context that ends on SIGINT and SIGTERM. If f fails, Run prints the
// error after the program's name and exits with status 1.
func Run(f func(context.Context) error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := f(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// Worker runs work and exits if this process is a child of Start; otherwise it does
// nothing. Call it first in main. work's context ends when the parent asks for that or
// dies, and on SIGINT and SIGTERM.
func Worker[Job, Result any](work func(context.Context, Job) (Result, error)) {
	if role, _ := child.Role(); role != worker {
		return
	}
	Run(func(ctx context.Context) error {
		var job Job
		if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
			return fmt.Errorf("no job: %w", err)
		}
		ctx, cancel := child.Until(ctx, os.Stdin)
		defer cancel()
		result, err := work(ctx, job)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(result)
	})
	os.Exit(0)
}

// Start starts a child on job.
func Start(job any) (*child.Process, error) {
	p, err := child.Again(worker, nil)
	if err != nil {
		return nil, err
	}
	if err := p.Tell(job); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// Workers runs the job in n children at once and returns their results. The result of a
// child that failed is empty. When ctx ends, or if a child does not start, Workers asks the
// others to end, and they still return results.
func Workers[Result any](ctx context.Context, n int, job any) ([]Result, error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	results, errs := make([]Result, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			p, err := Start(job)
			if err != nil {
				errs[i] = err
				leave()
				return
			}
			defer context.AfterFunc(ctx, p.Leave)()
			heard := p.Hear(context.Background(), &results[i])
			if err := errors.Join(p.Wait(), heard); err != nil {
				errs[i] = fmt.Errorf("worker %d: %w", p.Cmd.Process.Pid, err)
			}
		})
	}
	all.Wait()
	return results, errors.Join(errs...)
}
