// Package fleet runs a program's work in several processes: child processes of
// the program itself.
//
// A job goes to the child's standard input as JSON, the result comes back on
// its standard output. The input then stays open for as long as the parent
// lives, so that no child outlives its parent, however that ends.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// childEnv marks a child process.
const childEnv = "BERTH_EXAMPLE_CHILD"

// Main runs work and exits if this process is a child of Start. Otherwise it
// does nothing. Call it first in main. work's context ends when the parent asks
// for that, or dies, and on SIGINT and SIGTERM.
func Main[Job, Result any](work func(context.Context, Job) (Result, error)) {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := child(work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child[Job, Result any](work func(context.Context, Job) (Result, error)) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	var job Job
	input := json.NewDecoder(os.Stdin)
	if err := input.Decode(&job); err != nil {
		return fmt.Errorf("no job: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns at its end
		cancel()
	}()
	result, err := work(ctx, job)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Worker is a child process at work.
type Worker[Result any] struct {
	cmd   *exec.Cmd
	input io.Closer
	done  chan struct{}
	raw   json.RawMessage
	err   error
}

// Start starts a child on job.
func Start[Result, Job any](job Job) (*Worker[Result], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w := &Worker[Result]{cmd: cmd, input: input, done: make(chan struct{})}
	go w.follow(output)
	if err := json.NewEncoder(input).Encode(job); err != nil {
		w.Kill()
		_, _ = w.Wait()
		return nil, fmt.Errorf("cannot hand over the job: %w", err)
	}
	return w, nil
}

func (w *Worker[Result]) follow(output io.Reader) {
	defer close(w.done)
	read := json.NewDecoder(output).Decode(&w.raw)
	w.err = w.cmd.Wait()
	if w.err == nil && read != nil {
		w.err = fmt.Errorf("a worker ended without a result: %w", read)
	}
}

// Done is closed when the child has ended.
func (w *Worker[Result]) Done() <-chan struct{} { return w.done }

// Stop asks the child to end: its context does.
func (w *Worker[Result]) Stop() { w.input.Close() }

// Kill ends the child at once, without a chance to clean up.
func (w *Worker[Result]) Kill() { _ = w.cmd.Process.Kill() } // the only error is that it has ended

// Wait waits for the child's end and returns its result.
func (w *Worker[Result]) Wait() (result Result, err error) {
	<-w.done
	w.input.Close()
	if w.err != nil {
		return result, fmt.Errorf("worker %d: %w", w.cmd.Process.Pid, w.err)
	}
	return result, json.Unmarshal(w.raw, &result)
}

// Run runs all jobs at once, each in a child, and returns their results; those
// of children that failed are empty. When ctx ends, the children are asked to
// end and still give their results.
func Run[Result, Job any](ctx context.Context, jobs []Job) ([]Result, error) {
	workers := make([]*Worker[Result], 0, len(jobs))
	var errs []error
	for _, job := range jobs {
		w, err := Start[Result](job)
		if err != nil {
			errs = append(errs, err)
			for _, w := range workers {
				w.Stop()
			}
			break
		}
		workers = append(workers, w)
		defer context.AfterFunc(ctx, w.Stop)()
	}
	results := make([]Result, len(workers))
	for i, w := range workers {
		var err error
		results[i], err = w.Wait()
		errs = append(errs, err)
	}
	return results, errors.Join(errs...)
}
