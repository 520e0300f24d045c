package agent

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestLinesTellWhatHappens: a place in the queue, the grant, and each renewal.
func TestLinesTellWhatHappens(t *testing.T) {
	each(t, func(w *world) {
		w.inTime(func() (late bool) {
			start := time.Now()
			first := w.ask(1, `"ttl_ms":6000`)
			a := first.until("granted")
			second := w.ask(1)
			b := second.next()
			third := w.ask(1)
			c := third.next()
			r := first.next()
			slow := w.slow(start, 3400*time.Millisecond) // a third of the TTL, and what the answer takes
			first.conn.Close()
			defer third.conn.Close()
			defer second.conn.Close()
			if slow || w.late(a) || w.late(b) || w.late(c) || w.late(r) { // the second may have been granted already
				return true
			}
			d := second.until("granted")
			switch {
			case w.late(d):
				return true
			case a.Slot != 0 || a.Limit != 1 || a.Token == 0 || a.Remaining <= 0 || a.Remaining > 6000:
				w.Errorf("the first grant: %+v", a)
			case b.Event != "queued" || b.Ahead != 0 || b.Limit != 1 || c.Event != "queued" || c.Ahead != 1:
				w.Errorf("in the queue: %+v and %+v", b, c)
			case r.Event != "renewed" || r.Remaining <= 4000 || !w.Exact && r.UntilBoot <= a.UntilBoot:
				w.Errorf("after a third of the TTL: %+v, was %+v", r, a)
			case d.Token <= a.Token:
				w.Errorf("the second grant: %+v, after %+v", d, a)
			}
			return false
		})
	})
}

// TestClosingGivesThePermitBack, or leaves the queue: the next waiter has it at once, and not
// after the TTL.
func TestClosingGivesThePermitBack(t *testing.T) {
	each(t, func(w *world) {
		holder, leaves, next := w.holds(1), w.waits(1), w.waits(1)
		leaves.conn.Close()
		w.UntilWaiting(1)
		start := time.Now()
		holder.conn.Close()
		next.wants("granted")
		w.Within(start, 0, time.Second, "the next grant")
		next.conn.Close()
		w.untilHeld(0)
		w.Idle()
	})
}

// TestTheTrustDeadlineIsNoLaterThanRedisSays, by the clock that counts suspension.
func TestTheTrustDeadlineIsNoLaterThanRedisSays(t *testing.T) {
	each(t, func(w *world) {
		w.inTime(func() (late bool) {
			before := boottime()
			p := w.ask(1, `"ttl_ms":30000`)
			defer p.conn.Close()
			e := p.until("granted")
			if w.late(e) {
				return true
			}
			if after := boottime(); e.UntilBoot < before.Milliseconds() || e.UntilBoot-e.Remaining > after.Milliseconds()+1 {
				w.Errorf("until %d with %d left, between %v and %v", e.UntilBoot, e.Remaining, before, after)
			}
			if left := w.lease().ExpiresIn; time.Duration(e.Remaining)*time.Millisecond > left+w.Slack() {
				w.Errorf("the client may rely on %d ms, Redis has %v left", e.Remaining, left)
			}
			return false
		})
	})
}

// TestEvictedHolderIsAskedToStop, and told when it may no longer believe.
func TestEvictedHolderIsAskedToStop(t *testing.T) {
	each(t, func(w *world) {
		w.inTime(func() (late bool) {
			start := time.Now()
			p := w.ask(1, `"ttl_ms":3000`)
			defer p.conn.Close()
			p.until("granted")
			holders := w.Show().Leases
			if w.slow(start, 2*time.Second) {
				return true
			}
			w.Must(w.Inspector.Evict(w.Ctx, testenv.Name, holders[0].ID))
			e := p.until("stop")
			if w.slow(start, 2*time.Second) {
				return true
			}
			if e.Reason != "evicted" || e.Remaining <= 0 || e.Remaining > 3000 {
				w.Errorf("the holder is told %+v", e)
			}
			asked, left := time.Now(), time.Duration(e.Remaining)*time.Millisecond
			if e := p.wants("lost"); e.Reason != "evicted" || e.Message == "" {
				w.Errorf("at the deadline it is told %+v", e)
			}
			if took := time.Since(asked); w.Exact && (took < left || took > left+w.Slack()) {
				w.Errorf("it is told %v after it was asked to stop within %v", took, left)
			}
			p.wants("")
			return false
		})
		w.untilHeld(0)
	})
}

// TestEvictedHolderGivesItBack: the next has the permit before the old lease would expire.
func TestEvictedHolderGivesItBack(t *testing.T) {
	each(t, func(w *world) {
		p, next := w.holds(1), w.waits(1)
		w.Must(w.Inspector.Evict(w.Ctx, testenv.Name, w.lease().ID))
		p.wants("stop")
		start := time.Now()
		p.conn.Close()
		next.wants("granted")
		w.Within(start, 0, time.Second, "the next grant")
	})
}

// TestEvictedWaiterIsTold that it gets nothing.
func TestEvictedWaiterIsTold(t *testing.T) {
	each(t, func(w *world) {
		w.holds(1)
		p := w.waits(1)
		w.Must(w.Inspector.Evict(w.Ctx, testenv.Name, w.Show().Queue[0].ID))
		if e := p.wants("refused"); e.Error != "evicted" || e.Status != 409 {
			w.Errorf("the waiter is told %+v", e)
		}
		p.wants("")
	})
}

// TestLostLeaseIsTold: a maximum is reached, Redis forgets, Redis is away.
func TestLostLeaseIsTold(t *testing.T) {
	each(t, func(w *world) {
		w.inTime(func() (late bool) {
			capped := w.holds(3, `"max_hold_ms":1000`)
			e := capped.wants("lost")
			if w.late(e) {
				return true
			}
			if e.Reason != "max_hold" {
				w.Errorf("at its end it is told %+v", e)
			}
			capped.wants("")
			return false
		})
		short := w.holds(3, `"ttl_ms":1000`)
		w.peer.Net.Down()
		if e := short.wants("lost"); e.Reason != "untrusted" {
			w.Errorf("without Redis it is told %+v", e)
		}
		short.wants("")
	})
}

// TestWaitEnds when it was to, with a line that says so.
func TestWaitEnds(t *testing.T) {
	each(t, func(w *world) {
		w.holds(1)
		w.inTime(func() (late bool) {
			start := time.Now()
			p := w.ask(1, `"wait_ms":500`)
			first, last := p.next(), p.next()
			if !w.Exact && first.Event != "queued" || w.late(last) {
				return true
			}
			w.Within(start, 500*time.Millisecond, time.Second, "the refusal")
			if last.Event != "refused" || last.Error != "timeout" || last.Status != 409 || !strings.Contains(last.Message, "0 ahead") {
				w.Errorf("it is told %+v", last)
			}
			return false
		})
		w.untilHeld(1)
	})
}

// TestSilentHolderGivesItsPermitBack, although its connection is open; one that writes as
// often as it said keeps it.
func TestSilentHolderGivesItsPermitBack(t *testing.T) {
	each(t, func(w *world) {
		w.inTime(func() (late bool) {
			p, late := w.beats(asks(1, `"beat_ms":2000`), "\n")
			if late {
				return true
			}
			next := w.ask(1)
			defer next.conn.Close()
			start := time.Now()
			if e := p.wants("lost"); e.Reason != "silent" {
				w.Errorf("it is told %+v", e)
			}
			if e := next.until("granted"); w.late(e) {
				return true
			}
			w.Within(start, 0, 2*time.Second, "the end of the silence")
			p.wants("")
			return false
		})
		w.untilHeld(0)
	})
}

// beats takes a permit by a request with a beat of two seconds, and writes often enough for
// longer than that. It returns late if it could not.
func (w *world) beats(text, beat string) (p *program, late bool) {
	w.Helper()
	const agreed = 2 * time.Second
	last := time.Now()
	p = w.send(text)
	if p.until("granted"); w.slow(last, agreed) {
		p.conn.Close()
		return p, true
	}
	for range 6 {
		w.Pass(agreed / 4)
		before := time.Now()
		_, err := p.conn.Write([]byte(beat))
		if w.slow(last, agreed) {
			p.conn.Close()
			return p, true
		}
		w.Must(err)
		last = before
	}
	return p, false
}

// TestABeatThatIsReadLateCounts: it was there in time, and the agent was too slow.
func TestABeatThatIsReadLateCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(testenv.Shared(t), Options{})
	l, dial := w.socket()
	t.Cleanup(func() { l.Close() })
	theirs, err := dial()
	w.Must(err)
	defer theirs.Close()
	ours, err := l.Accept()
	w.Must(err)
	defer ours.Close()
	h := &hold{conn: ours, request: &request{beat: time.Hour}}
	h.held.Store(true)
	for _, beat := range []string{"\n", ""} {
		_, err := theirs.Write([]byte(beat))
		w.Must(err)
		h.conn.SetReadDeadline(time.Unix(1, 0)) // as if it had passed while the agent had no CPU
		got := make([]byte, 10)
		if n, err := (punctual{h}).Read(got); string(got[:n]) != beat || (err == nil) != (beat != "") {
			w.Errorf("of %q it reads %q, %v", beat, got[:n], err)
		}
	}
}

// TestABeatInTheQueueIsNotDue: what a client writes before the grant neither ends its wait nor
// counts for later.
func TestABeatInTheQueueIsNotDue(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		lease := w.Hold(w.Peer().Sem(1))
		p := w.waits(1, `"beat_ms":1000`)
		_, err := p.conn.Write([]byte("\n"))
		w.Must(err)
		w.Pass(5 * time.Second)
		if n := w.Show().Waiting; n != 1 {
			w.Fatalf("%d wait, want 1", n)
		}
		start := time.Now()
		w.Release(lease)
		p.wants("granted")
		if e := p.wants("lost"); e.Reason != "silent" {
			w.Errorf("it is told %+v", e)
		}
		w.Within(start, time.Second, time.Second, "the end of the silence")
	})
}

// TestPermitIsFreeOnlyAfterTheLine that tells the holder so: until the client can have read it, it
// may believe to hold what nobody else must have then.
func TestPermitIsFreeOnlyAfterTheLine(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		conn := w.connect(asks(1, `"beat_ms":1000`))
		in := bufio.NewReader(conn)
		line := func(name string) {
			t.Helper()
			for text := ""; !strings.Contains(text, `"event":"`+name+`"`); {
				var err error
				text, err = in.ReadString('\n')
				w.Must(err)
			}
		}
		line("granted")
		w.Pass(time.Second + writeTimeout/2) // the agent writes to a pipe, which has no room until it is read
		w.lease()
		line("lost")
		w.untilHeld(0)
	})
}

// TestFrozenHolderWithoutBeatKeepsItsPermit: nothing else was agreed.
func TestFrozenHolderWithoutBeatKeepsItsPermit(t *testing.T) {
	each(t, func(w *world) {
		w.inTime(func() (late bool) {
			p := w.ask(1, fmt.Sprintf(`"ttl_ms":%d`, w.TTL.Milliseconds()))
			defer p.conn.Close()
			if e := p.until("granted"); w.late(e) {
				return true
			}
			for range 4 { // longer than the TTL
				if e := p.next(); w.late(e) {
					return true
				} else if e.Event != "renewed" {
					w.Errorf("it is told %+v", e)
				}
			}
			return false
		})
	})
}

// TestAClientThatDoesNotReadIsEnded, in the queue and with a permit, and others are not held up.
func TestAClientThatDoesNotReadIsEnded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		deaf := w.connect(post(`{"name":"s","limit":1}`)) // a pipe has no room for what is not read
		start := time.Now()
		w.Until("a grant that nobody reads", func(s *berthadmin.State) bool { return len(s.Leases) == 1 })
		w.holds(1)
		w.Within(start, writeTimeout, 2*writeTimeout, "the end of the one that does not read")
		w.connect(post(`{"name":"s","limit":1}`))
		w.UntilWaiting(1)
		w.UntilWaiting(0)
		if _, err := deaf.Write([]byte("\n")); err == nil {
			w.Error("its connection is still there")
		}
	})
}

// TestAReaderThatIsLateIsNotEnded: there is room for its lines, and they are there when it reads.
func TestAReaderThatIsLateIsNotEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(testenv.Shared(t), Options{})
	w.inTime(func() (late bool) {
		p := &program{w: w, conn: w.connect(asks(1, `"ttl_ms":2000`)), events: make(chan event, 100)}
		defer p.conn.Close()
		w.Pass(2 * writeTimeout)
		go p.read()
		if e := p.until("granted"); w.late(e) || e.Event != "granted" {
			return true
		}
		for range 3 {
			if e := p.next(); w.late(e) {
				return true
			} else if e.Event != "renewed" {
				w.Errorf("it is told %+v", e)
			}
		}
		return false
	})
}

// TestASlowReaderOfASocketIsEnded when its buffers are full.
func TestASlowReaderOfASocketIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorldOn(testenv.Shared(t), Options{}, func(l net.Listener) net.Listener { return narrow{l} })
	w.inTime(func() (late bool) {
		before := w.ends()
		w.connect(post(`{"name":"s","limit":1,"ttl_ms":1000}`))
		w.Until("the end of the hold", func(*berthadmin.State) bool { return w.ends() > before })
		return w.count(`berth_agent_holds_ended_total{reason="slow"}`) == 0
	})
}

// ends is how many holds have ended.
func (w *world) ends() (n float64) {
	w.Helper()
	for _, reason := range []string{"slow", "untrusted", "expired"} {
		n += w.count(fmt.Sprintf("berth_agent_holds_ended_total{reason=%q}", reason))
	}
	return n
}

// TestClientThatShutsDownItsHalfIsTold when its permit was given back.
func TestClientThatShutsDownItsHalfIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(testenv.Shared(t), Options{})
	p := w.holds(1)
	w.Must(p.conn.(*net.UnixConn).CloseWrite())
	if e := p.wants("released"); e.Message != "" {
		w.Errorf("it is told %+v", e)
	}
	w.Idle() // already
	p.wants("")
}

// TestNothingIsGrantedToAConnectionThatIsGone, however close the end of the connection and the
// grant are.
func TestNothingIsGrantedToAConnectionThatIsGone(t *testing.T) {
	each(t, func(w *world) {
		sem := w.peer.Sem(1)
		for i := range w.Many(60) {
			lease := w.Hold(sem)
			p := w.waits(1)
			delay := time.After(time.Duration(i) * 50 * time.Microsecond)
			go func() { _ = lease.Release() }()
			<-delay
			p.conn.Close()
			w.Release(w.Hold(sem))
		}
		w.untilHeld(0)
		w.Idle()
	})
}

// TestOrderOverGoAndAgentClients: first come, first served, whoever comes.
func TestOrderOverGoAndAgentClients(t *testing.T) {
	each(t, func(w *world) {
		other := w.Peer()
		first := w.holds(1)
		type next struct {
			granted func()
			release func()
		}
		var queue []next
		for i := range 10 {
			if i%2 == 0 {
				p := w.waits(1)
				queue = append(queue, next{func() { p.wants("granted") }, func() { p.conn.Close() }})
				continue
			}
			r := w.Queue(other.Sem(1))
			var l *berth.Lease
			queue = append(queue, next{func() { l = r.Granted() }, func() { w.Release(l) }})
		}
		w.UntilWaiting(len(queue))
		first.conn.Close()
		for i, n := range queue {
			n.granted()
			if st := w.Show(); st.Waiting != len(queue)-1-i || st.Holders != 1 {
				w.Errorf("after grant %d: %d wait, %d hold", i, st.Waiting, st.Holders)
			}
			n.release()
		}
	})
}
