package session

import "github.com/berth-go/berth/internal/protocol"

// workers are the goroutines that make a session's calls. Some of them stay when they
// have nothing to do: a call goes deep into the Redis client, and on the way there the
// stack of a new goroutine would be copied three times, which costs more than everything
// else that berth does for a call.
type workers struct {
	jobs chan *protocol.Flight // unbuffered: taken only by a worker that has nothing to do
	idle chan struct{}         // has an element for each worker that waits
	done <-chan struct{}       // closed when the session is
}

// mostIdle is how many workers wait when there is nothing to do.
const mostIdle = 8

func newWorkers(done <-chan struct{}) *workers {
	return &workers{jobs: make(chan *protocol.Flight), idle: make(chan struct{}, mostIdle), done: done}
}

// do gives f to an idle worker, or to a new one. It does not wait.
func (w *workers) do(f *protocol.Flight) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

// work flies f and then waits for other flights, until enough other workers wait.
func (w *workers) work(f *protocol.Flight) {
	for ok := true; ok; f, ok = w.next() {
		f.Fly()
	}
}

// next waits for a flight; false: enough others already wait, or the session is closed.
func (w *workers) next() (*protocol.Flight, bool) {
	select {
	case w.idle <- struct{}{}:
	default:
		return nil, false
	}
	select {
	case f := <-w.jobs:
		<-w.idle
		return f, true
	case <-w.done:
		return nil, false
	}
}
