package agent

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestLinesTellWhatHappens: a place in the queue, the grant, and each renewal.
func TestLinesTellWhatHappens(t *testing.T) {
	each(t, func(w *world) {
		first := w.ask(1, `"ttl_ms":3000`)
		a := first.wants("granted")
		if a.Slot != 0 || a.Limit != 1 || a.Token == 0 || a.Remaining <= 0 || a.Remaining > 3000 {
			w.Errorf("the first grant: %+v", a)
		}
		second := w.ask(1)
		if e := second.next(); e.Event != "queued" || e.Ahead != 0 || e.Limit != 1 {
			w.Errorf("the second is told %+v", e)
		}
		third := w.ask(1)
		if e := third.next(); e.Event != "queued" || e.Ahead != 1 {
			w.Errorf("the third is told %+v", e)
		}
		renewed := first.next()
		if renewed.Event != "renewed" || renewed.Remaining <= 2000 || !w.Exact && renewed.UntilBoot <= a.UntilBoot {
			w.Errorf("after a third of the TTL: %+v, was %+v", renewed, a)
		}
		first.conn.Close()
		if b := second.wants("granted"); b.Token <= a.Token {
			w.Errorf("the second grant: %+v, after %+v", b, a)
		}
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
		before := boottime()
		e := w.ask(1, `"ttl_ms":30000`).wants("granted")
		if after := boottime(); e.UntilBoot < before.Milliseconds() || e.UntilBoot-e.Remaining > after.Milliseconds()+1 {
			w.Errorf("until %d with %d left, between %v and %v", e.UntilBoot, e.Remaining, before, after)
		}
		if left := w.lease().ExpiresIn; time.Duration(e.Remaining)*time.Millisecond > left+w.Slack() {
			w.Errorf("the client may rely on %d ms, Redis has %v left", e.Remaining, left)
		}
	})
}

// TestEvictedHolderIsAskedToStop, and told when it may no longer believe.
func TestEvictedHolderIsAskedToStop(t *testing.T) {
	each(t, func(w *world) {
		p := w.holds(1, `"ttl_ms":3000`)
		w.Must(w.Inspector.Evict(w.Ctx, testenv.Name, w.lease().ID))
		if e := p.wants("stop"); e.Reason != "evicted" || e.Remaining <= 0 || e.Remaining > 3000 {
			w.Errorf("the holder is told %+v", e)
		}
		if e := p.wants("lost"); e.Reason != "evicted" || e.Message == "" {
			w.Errorf("at the deadline it is told %+v", e)
		}
		p.wants("")
		w.Idle()
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
		capped := w.holds(3, `"max_hold_ms":1000`)
		if e := capped.wants("lost"); e.Reason != "max_hold" {
			w.Errorf("at its end it is told %+v", e)
		}
		capped.wants("")
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
		start := time.Now()
		e := w.ask(1, `"wait_ms":500`).wants("refused")
		w.Within(start, 500*time.Millisecond, time.Second, "the refusal")
		if e.Error != "timeout" || e.Status != 409 || !strings.Contains(e.Message, "0 ahead") {
			w.Errorf("it is told %+v", e)
		}
		w.untilHeld(1)
	})
}

// TestSilentHolderGivesItsPermitBack, although its connection is open; one that writes as
// often as it said keeps it.
func TestSilentHolderGivesItsPermitBack(t *testing.T) {
	each(t, func(w *world) {
		p := w.holds(1, `"beat_ms":500`)
		for range 5 {
			<-time.After(100 * time.Millisecond)
			_, err := p.conn.Write([]byte("\n"))
			w.Must(err)
		}
		next := w.waits(1)
		start := time.Now()
		if e := p.wants("lost"); e.Reason != "silent" {
			w.Errorf("it is told %+v", e)
		}
		next.wants("granted")
		w.Within(start, 0, 500*time.Millisecond, "the end of the silence")
		p.wants("")
		next.conn.Close()
		w.untilHeld(0)
	})
}

// TestFrozenHolderWithoutBeatKeepsItsPermit: nothing else was agreed.
func TestFrozenHolderWithoutBeatKeepsItsPermit(t *testing.T) {
	each(t, func(w *world) {
		w.send(post(`{"name":"s","limit":1,"ttl_ms":1000}`)).wants("granted")
		<-time.After(3 * time.Second)
		w.untilHeld(1)
	})
}

// TestAClientThatDoesNotReadIsEnded, in the queue and with a permit, and others are not held up.
func TestAClientThatDoesNotReadIsEnded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := newWorld(e, Options{})
		deaf := w.connect(post(`{"name":"s","limit":1}`)) // a pipe has no room for what is not read
		start := time.Now()
		w.holds(1)
		w.Within(start, 0, 2*writeTimeout, "the end of the one that does not read")
		w.connect(post(`{"name":"s","limit":1}`))
		w.UntilWaiting(1)
		w.UntilWaiting(0)
		if _, err := deaf.Write([]byte("\n")); err == nil {
			w.Error("its connection is still there")
		}
	})
}

// TestASlowReaderOfASocketIsEnded when its buffers are full.
func TestASlowReaderOfASocketIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(testenv.Shared(t), Options{})
	for range 20 { // a slow machine may lose the lease first
		w.connect(post(`{"name":"s","limit":1,"ttl_ms":1000}`))
		w.untilHeld(1)
		w.untilHeld(0)
		if w.count(`berth_agent_holds_ended_total{reason="slow"}`) > 0 {
			return
		}
	}
	w.Error("no hold was ended because its client does not read")
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

// TestChunkedRequestLastsAsLongAsItsBody: that is how curl and HTTP libraries close their half.
func TestChunkedRequestLastsAsLongAsItsBody(t *testing.T) {
	each(t, func(w *world) {
		const start = "POST /v1/hold HTTP/1.1\r\nHost: agent\r\nTransfer-Encoding: chunked\r\n\r\n"
		p := w.send(start + "1c\r\n{\"name\":\"s\",\"beat_ms\":500}\n\n\r\n")
		p.wants("granted")
		for range 5 {
			<-time.After(200 * time.Millisecond)
			_, err := p.conn.Write([]byte("1\r\n\n\r\n"))
			w.Must(err)
		}
		_, err := p.conn.Write([]byte("0\r\n\r\n"))
		w.Must(err)
		p.wants("released")
		w.Idle()
	})
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
