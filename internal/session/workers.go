package session

import "github.com/berth-go/berth/internal/commit"

// workers are the goroutines that make a session's calls. Some of them stay when they
// have nothing to do: a call goes deep into the Redis client, and on the way there the
// stack of a new goroutine would be copied three times, which costs more than everything
// else that berth does for a call.
type workers struct {
	jobs chan job        // unbuffered: taken only by a worker that has nothing to do
	idle chan struct{}   // has an element for each worker that waits
	done <-chan struct{} // closed when the session is
}

// mostIdle is how many workers wait when there is nothing to do.
const mostIdle = 8

// job is a call and its semaphore.
type job struct {
	sem  *Semaphore
	call *commit.Call[*Claim]
}

func newWorkers(done <-chan struct{}) *workers {
	return &workers{jobs: make(chan job), idle: make(chan struct{}, mostIdle), done: done}
}

// do gives j to an idle worker, or to a new one. It does not wait.
func (w *workers) do(j job) {
	select {
	case w.jobs <- j:
	default:
		go w.work(j)
	}
}

// work does j and then waits for other jobs, until enough other workers wait.
func (w *workers) work(j job) {
	for ok := true; ok; j, ok = w.next() {
		j.sem.run(j.call)
	}
}

// next waits for a job; false: enough others already wait, or the session is closed.
func (w *workers) next() (job, bool) {
	select {
	case w.idle <- struct{}{}:
	default:
		return job{}, false
	}
	select {
	case j := <-w.jobs:
		<-w.idle
		return j, true
	case <-w.done:
		return job{}, false
	}
}
