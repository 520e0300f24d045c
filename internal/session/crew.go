package session

// crew are the goroutines that make a session's calls. A call goes deep into the
// Redis client, and a goroutine that is new each time would have its stack copied
// three times on the way there, which costs more than all else that berth does
// for a call. So some goroutines stay.
type crew struct {
	jobs chan job        // unbuffered: taken only by somebody who has nothing to do
	idle chan struct{}   // holds a place for each who may stay
	done <-chan struct{} // closed when nobody is to stay any more
}

// mostIdle is how many stay when there is nothing to do.
const mostIdle = 8

// job is a flight and the semaphore whose it is.
type job struct {
	sem    *Semaphore
	flight *flight
}

func newCrew(done <-chan struct{}) *crew {
	return &crew{jobs: make(chan job), idle: make(chan struct{}, mostIdle), done: done}
}

// take has j done by somebody who is idle, or else by a newcomer. It does not wait.
func (c *crew) take(j job) {
	select {
	case c.jobs <- j:
	default:
		go c.work(j)
	}
}

// work does j and what comes after it, until too many are idle.
func (c *crew) work(j job) {
	for ok := true; ok; j, ok = c.next() {
		j.sem.run(j.flight)
	}
}

// next waits for a job; false: too many wait already, or nobody is to stay.
func (c *crew) next() (job, bool) {
	select {
	case c.idle <- struct{}{}:
	default:
		return job{}, false
	}
	select {
	case j := <-c.jobs:
		<-c.idle
		return j, true
	case <-c.done:
		return job{}, false
	}
}
