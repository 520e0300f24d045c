package session

import "github.com/berth-go/berth/internal/commit"

// workers are the goroutines that make a session's calls. A call goes deep into the
// Redis client, and a goroutine that is new each time would have its stack copied
// three times on the way there, which costs more than all else that berth does for
// a call. So some goroutines stay.
type workers struct {
	jobs chan job        // unbuffered: taken only by a worker that has nothing to do
	idle chan struct{}   // holds a place for each worker that may stay
	done <-chan struct{} // closed when the session is
}

// mostIdle is how many workers stay when there is nothing to do.
const mostIdle = 8

// job is a call and its semaphore.
type job struct {
	sem  *Semaphore
	call *commit.Call[*Claim]
}

func newWorkers(done <-chan struct{}) *workers {
	return &workers{jobs: make(chan job), idle: make(chan struct{}, mostIdle), done: done}
}

// do has j done by an idle worker, or else by a new one. It does not wait.
func (w *workers) do(j job) {
	select {
	case w.jobs <- j:
	default:
		go w.work(j)
	}
}

// work does j and what comes after it, until enough others are idle.
func (w *workers) work(j job) {
	for ok := true; ok; j, ok = w.next() {
		j.sem.run(j.call)
	}
}

// next waits for a job; false: enough others wait already, or the session is closed.
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
