package session

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
)

// crowd is a session with many semaphores, whose calls the test keeps, and a list of the rounds that
// were sent.
type crowd struct {
	*server

	mu        sync.Mutex
	rounds    []int // guarded by mu; how many calls each had
	deadline  time.Time
	now, peak int           // guarded by mu; rounds in flight
	late      time.Duration // of each reply
	kept      chan struct{} // guarded by mu; rounds that begin have their replies when it is closed
	done      sync.WaitGroup
}

func inCrowd(t *testing.T, test func(*crowd)) {
	inBubble(t, func(s *server) {
		c := &crowd{server: s}
		s.rdb.AddHook(c)
		c.must(c.acquire("first")) // the server knows the script
		c.rounds = nil
		test(c)
		c.free()
		c.done.Wait()
	})
}

// DialHook implements redis.Hook.
func (*crowd) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (c *crowd) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer c.begin(ctx, cmd)()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *crowd) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer c.begin(ctx, cmds...)()
		return next(ctx, cmds)
	}
}

// begin counts a round, and returns a function that waits until it may have its replies.
func (c *crowd) begin(ctx context.Context, cmds ...redis.Cmder) (land func()) {
	if cmds[0].Name() != "evalsha" { // what makes a connection ready, say
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds = append(c.rounds, len(cmds))
	c.deadline, _ = ctx.Deadline()
	c.now++
	c.peak = max(c.peak, c.now)
	kept := c.kept
	return func() {
		if kept != nil {
			<-kept
		}
		<-time.After(c.late)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}
}

// keep has the rounds that begin from now on wait for their replies until free.
func (c *crowd) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = make(chan struct{})
}

// free lets those rounds go that began since keep. The next ones do not wait.
func (c *crowd) free() {
	c.mu.Lock()
	if c.kept != nil {
		close(c.kept)
		c.kept = nil
	}
	c.mu.Unlock()
	synctest.Wait()
}

// sent returns how many rounds were sent.
func (c *crowd) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.rounds)
}

func (c *crowd) acquire(name string) error {
	_, err := c.Semaphore(name).Acquire(context.Background(), terms(true), false, nil)
	return err
}

func (c *crowd) must(err error) {
	if err != nil {
		c.Error(err)
	}
}

// ask starts n acquires, each of a semaphore of its own, and checks that they end with a grant.
func (c *crowd) ask(name string, n int) {
	for i := range n {
		c.done.Go(func() { c.must(c.acquire(fmt.Sprint(name, i))) })
	}
	synctest.Wait()
}

// occupy starts mostRounds rounds, of one call each.
func (c *crowd) occupy(name string) {
	for i := range mostRounds {
		c.ask(fmt.Sprint(name, i, " "), 1)
	}
}

// keepAsking makes a call every millisecond, and returns how many rounds were sent meanwhile.
func (c *crowd) keepAsking(name string, span time.Duration) int {
	before := c.sent()
	for i := range span / time.Millisecond {
		c.ask(fmt.Sprint(name, int(i), " "), 1)
		<-time.After(time.Millisecond)
	}
	return c.sent() - before
}

func TestCallsThatGatherTravelTogether(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		c.occupy("in flight")
		c.ask("together", mostTogether+10)
		c.free()
		slices.Sort(c.rounds)
		if !slices.Equal(c.rounds, []int{1, 1, 1, 10, mostTogether}) {
			c.Errorf("rounds of %d calls", c.rounds)
		}
	})
}

// TestTogetherToAServerThatForgotTheScript: each call of a round is refused, and then made alone.
func TestTogetherToAServerThatForgotTheScript(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		c.occupy("in flight")
		c.must(c.rdb.ScriptFlush(context.Background()).Err())
		c.ask("together", 5)
		c.free()
	})
}

// TestHangingRoundsHoldNobodyUp: after a moment the calls that wait go on another connection, though
// nobody else comes. Calls that follow each other closely do not wait for those that hang
// once one of them has gone round.
func TestHangingRoundsHoldNobodyUp(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		c.occupy("in flight")
		c.ask("gathered", 3)
		if c.sent() != mostRounds {
			c.Error("a call did not gather")
		}
		c.mu.Lock()
		hung := c.kept
		c.kept = nil
		c.mu.Unlock()
		<-time.After(hangs + 2*time.Millisecond)
		synctest.Wait()
		if want := []int{1, 1, 1, 3}; !slices.Equal(c.rounds, want) {
			c.Errorf("rounds of %d calls, want %d", c.rounds, want)
		}
		begun := time.Now()
		for i := range 5 {
			c.ask(fmt.Sprint("afterwards", i), 1)
		}
		if c.sent() != mostRounds+1+5 || time.Since(begun) > 0 {
			c.Errorf("%d rounds after %v", c.sent(), time.Since(begun))
		}
		close(hung)
	})
}

// TestHangingRoundsThatComeBack: they have their answers, and count no more: those that travel
// meanwhile are as many as they would be without them, and so are those that follow.
func TestHangingRoundsThatComeBack(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		c.occupy("hang")
		<-time.After(hangs + time.Millisecond)
		hung := c.kept
		c.keep()
		c.occupy("on other connections")
		close(hung)
		synctest.Wait()
		if c.ask("gathers", 1); c.sent() != 2*mostRounds {
			c.Error("more rounds are in flight than there should be")
		}
		c.free()
		before := c.sent()
		c.keep()
		if c.occupy("afterwards"); c.sent()-before != mostRounds {
			c.Errorf("%d rounds in flight, want %d", c.sent()-before, mostRounds)
		}
	})
}

// TestOutageTakesFewRounds: while all hang, the time after which others start doubles; it is the old
// one as soon as there is an answer. So few goroutines have a call, and all others are in line once.
// When it is over, everybody is served.
func TestOutageTakesFewRounds(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		const lasts = time.Second
		// Each generation of mostRounds waits twice as long as the one before it.
		most := mostRounds * (2 + bits.Len(uint(lasts/hangs)))
		if n := c.keepAsking("outage", lasts); n > most || n < 2*mostRounds {
			c.Errorf("%d rounds in an outage of %v, want %d at most", n, lasts, most)
		}
		if n := c.inLine(); n > int(lasts/time.Millisecond) {
			c.Errorf("%d in line", n)
		}
		c.free()
		c.done.Wait()
		if n := c.inLine(); n > 0 || c.workers.waiting != nil {
			c.Errorf("%d in line after the outage", n)
		}
		c.keep()
		if n := c.keepAsking("next outage", 2*hangs-time.Millisecond); n != 2*mostRounds {
			c.Errorf("%d rounds at the beginning of the next outage, want %d", n, 2*mostRounds)
		}
	})
}

func (c *crowd) inLine() int {
	c.workers.mu.Lock()
	defer c.workers.mu.Unlock()
	return len(c.workers.waiting)
}

// TestSlowRedisTakesFewRounds: an answer to a round that was no longer waited for does not say that
// those which travel now will be answered at once.
func TestSlowRedisTakesFewRounds(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		const late = 300 * time.Millisecond
		c.late = late
		c.keepAsking("slow", 4*late)
		// Each generation of mostRounds waits twice as long as the one before it.
		if most := mostRounds * (2 + bits.Len(uint(late/hangs))); c.peak > most {
			c.Errorf("%d rounds at once, want %d at most", c.peak, most)
		}
	})
}

// TestRoundThatSendsNothingIsNoAnswer: while all hang, whoever leaves the line, or is taken by another
// round, does not have others start earlier.
func TestRoundThatSendsNothingIsNoAnswer(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		c.occupy("hang")
		ctx, leave := context.WithCancel(context.Background())
		c.done.Go(func() { _, _ = c.Semaphore("leaves").Acquire(ctx, terms(true), false, nil) })
		synctest.Wait()
		leave()
		<-time.After(hangs + 2*time.Millisecond) // the one that has left is taken, and nothing is sent
		synctest.Wait()
		c.workers.mu.Lock()
		rounds, generation, after := c.workers.rounds, c.workers.generation, c.workers.hangs
		c.workers.mu.Unlock()
		if c.sent() != mostRounds || rounds != 0 || generation != 1 || after != 2*hangs {
			c.Errorf("%d rounds were sent; %d of generation %d in flight, which hang after %v", c.sent(), rounds, generation, after)
		}
	})
}

// TestRoundWaitsForItsMostPatientCall: its deadline, which the connection may heed, is the latest.
func TestRoundWaitsForItsMostPatientCall(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		for _, order := range [][]time.Duration{{ttl, time.Second}, {time.Second, ttl}} {
			c.keep()
			c.occupy(fmt.Sprint("in flight", order))
			for _, ttl := range order {
				of := *terms(true)
				of.TTL = ttl
				c.done.Go(func() {
					_, err := c.Semaphore(fmt.Sprint(order, ttl)).Acquire(context.Background(), &of, true, nil)
					c.must(err)
				})
				synctest.Wait()
			}
			c.free()
			if left := time.Until(c.deadline); left != 3*claim.Timeout/2 {
				c.Errorf("the round may take %v, want %v", left, 3*claim.Timeout/2)
			}
		}
	})
}

// TestWhoLeavesTheLineSendsNothing: neither the request that has ended, nor anything to take it back.
func TestWhoLeavesTheLineSendsNothing(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.keep()
		c.occupy("in flight")
		ctx, leave := context.WithCancel(context.Background())
		c.done.Go(func() { _, _ = c.Semaphore("a").Acquire(ctx, terms(true), false, nil) })
		synctest.Wait()
		leave()
		synctest.Wait()
		c.free()
		<-time.After(time.Second)
		if c.sent() != mostRounds {
			c.Errorf("%d rounds, want %d", c.sent(), mostRounds)
		}
	})
}

// TestSeveralServersHaveAnyNumberOfWorkers: those whose server is silent take none from the others,
// and hold nobody's answers up.
func TestSeveralServersHaveAnyNumberOfWorkers(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		c.workers.several = true
		c.keep()
		for i := range 5 {
			c.occupy(fmt.Sprint("hang", i))
		}
		if c.sent() != 5*mostRounds || slices.Max(c.rounds) > 1 {
			c.Errorf("rounds of %d calls", c.rounds)
		}
		line := workers{several: true, waiting: make([]*Semaphore, 3)}
		if n := len(line.take()); n != 1 || len(line.waiting) != 2 {
			c.Errorf("a worker takes %d of three", n)
		}
	})
}

// TestCallThatWaitsForReplicasGoesAlone: it would hold up the others of its round.
func TestCallThatWaitsForReplicasGoesAlone(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		of := *terms(true)
		r, err := c.Semaphore("a").Acquire(context.Background(), &of, false, nil)
		c.must(err)
		of.MinReplicas = 1
		c.rounds = nil
		c.keep()
		c.occupy("in flight")
		c.done.Go(func() { _ = r.Renew(context.Background()) })
		c.ask("together", 2)
		c.free()
		slices.Sort(c.rounds)
		if !slices.Equal(c.rounds, []int{1, 1, 1, 2, 2}) { // one of these is the renewal with its WAIT
			c.Errorf("rounds of %d commands", c.rounds)
		}
	})
}

// TestNobodyWaitsForGoroutinesThatCompute: after a yield that took long there is none for a while, and
// after a short one there may be another.
func TestNobodyWaitsForGoroutinesThatCompute(t *testing.T) {
	t.Parallel()
	var w workers
	began := time.Now()
	if w.yielded(began, longYield); !w.mayYield(began) {
		t.Error("after a short yield there is no other")
	}
	const took = 10 * time.Millisecond
	w.yielded(began, took)
	for after, want := range map[time.Duration]bool{0: false, rareYield*took - 1: false, rareYield * took: true} {
		if got := w.mayYield(began.Add(after)); got != want {
			t.Errorf("%v after a yield of %v there may be another: %v", after, took, got)
		}
	}
}

// TestNobodyWaitsForWhoDoesNotCome: those whom an answer has woken may have nothing more to send.
func TestNobodyWaitsForWhoDoesNotCome(t *testing.T) {
	inCrowd(t, func(c *crowd) {
		sem := c.Semaphore("a")
		sem.mu.Lock()
		sem.woken = 5
		sem.mu.Unlock()
		began := time.Now()
		if c.must(c.acquire("a")); time.Since(began) > 0 || sem.woken > 1 {
			c.Errorf("an acquire took %v, and %d are waited for", time.Since(began), sem.woken)
		}
	})
}
