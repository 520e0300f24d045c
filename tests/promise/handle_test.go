package promise_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// A handle is good for one adoption. Everybody who comes later is told who was first,
// and changes nothing.
func TestHandleIsGoodForOneAdoption(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q, r := e.Peer(), e.Peer(), e.Peer()
		handle, err := e.Hold(p.Sem(1)).Detach(e.Ctx)
		e.Must(err)
		lease, err := q.Adopt(e.Ctx, handle)
		e.Must(err)
		lateComers := func(holder *berth.Lease) {
			for what, ask := range map[string]func() error{
				"another process adopts": func() error { _, err := r.Adopt(e.Ctx, handle); return err },
				"the same one adopts":    func() error { _, err := q.Adopt(e.Ctx, handle); return err },
				"somebody renews":        func() error { _, err := r.RenewHandle(e.Ctx, handle); return err },
				"somebody releases":      func() error { return r.ReleaseHandle(e.Ctx, handle) },
			} {
				lost, ok := errors.AsType[*berth.LostError](ask())
				if !ok || lost.Reason != berth.LostAdopted || !strings.HasPrefix(lost.By, fmt.Sprint(os.Getpid(), "/")) {
					e.Errorf("%s: told %+v", what, lost)
				}
			}
			e.Holds(holder)
		}
		lateComers(lease)
		e.Release(lease)
		lateComers(e.Hold(r.Sem(1)))
	})
}

// Of those who adopt a lease at the same time in one process, one has it and the others are told
// so; what else that process asks of the semaphore meanwhile works.
func TestOneHandleAdoptedByManyAtOnce(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		e.Must(e.Timely(func() error { return adoptByMany(e, p, q) }))
	})
}

// adoptByMany fails with ErrUnreachable if an adoption had no answer in its 5 seconds.
func adoptByMany(e *testenv.Env, p, q *testenv.Peer) (unanswered error) {
	e.Helper()
	handle, err := e.Hold(p.Sem(2)).Detach(e.Ctx)
	e.Must(err)
	other := e.Hold(q.Sem(2))
	const adopters = 20
	type outcome struct {
		lease *berth.Lease
		err   error
	}
	done := make(chan outcome, adopters)
	for range adopters {
		go func() {
			lease, err := q.Adopt(e.Ctx, handle)
			done <- outcome{lease, err}
		}()
	}
	e.Release(other)
	var adopted []*berth.Lease
	for range adopters {
		o := testenv.Receive(e, "end of an adoption", done)
		lost, ok := errors.AsType[*berth.LostError](o.err)
		switch {
		case o.err == nil:
			adopted = append(adopted, o.lease)
		case errors.Is(o.err, berth.ErrUnreachable):
			unanswered = o.err
		case !ok || lost.Reason != berth.LostAdopted:
			e.Errorf("told %v", o.err)
		}
	}
	if st := e.Show(); unanswered == nil && (len(adopted) != 1 || st.Holders != 1) || len(adopted) > 1 {
		e.Errorf("%d have adopted it, state %+v", len(adopted), st)
	}
	e.Release(adopted...)
	return unanswered
}

// After some minutes the server has forgotten an adoption, and nobody takes the lease for one
// that has expired.
func TestHandleThatTheServerHasForgotten(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		handle, err := e.Hold(p.Sem(1)).Detach(e.Ctx)
		e.Must(err)
		lease, err := p.Adopt(e.Ctx, handle)
		e.Must(err)
		e.Pass(3 * time.Minute)
		_, adopt := q.Adopt(e.Ctx, handle)
		_, renew := q.RenewHandle(e.Ctx, handle)
		release := q.ReleaseHandle(e.Ctx, handle) // the last, as it leaves a tombstone
		for what, err := range map[string]error{"adopt": adopt, "renew": renew, "release": release} {
			if lost, ok := errors.AsType[*berth.LostError](err); !ok || lost.Reason != berth.LostUnknown {
				e.Errorf("%s: told %+v", what, lost)
			}
		}
		e.Holds(lease)
	})
}

// Nobody makes a handle of what operators see.
func TestHandleCannotBeMadeOfALeasesID(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		lease, next := e.Hold(p.Sem(2)), e.Hold(p.Sem(2))
		id := lease.ID()
		for made, want := range map[string]error{id: berth.ErrHandle, id[:strings.Index(id, "-")]: berth.ErrLost} {
			_, err := q.Adopt(e.Ctx, berth.Handle("berth1/"+e.Prefix+"/"+testenv.Name+"/"+made))
			e.WantErr(err, want)
		}
		handle, err := lease.Detach(e.Ctx)
		e.Must(err)
		if session := id[strings.Index(id, ".")+1 : strings.Index(id, "-")]; strings.Contains(string(handle), session) {
			e.Errorf("the handle %s tells the session of %s", string(handle), id)
		}
		if st := e.Show(); st.Holders != 2 || !next.Valid() {
			e.Errorf("state %+v", st)
		}
	})
}

// The process that has given a lease away has no part in it any more: a renewal of it
// that comes late does nothing, and what happens to the lease is told to its adopter.
func TestFormerOwnerHasNoPartInTheLease(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(1, berth.WithoutRenewal()))
		late := p.Net.Inject(redistest.Rule{Match: testenv.Carries("R"), Fault: redistest.Delay})
		e.Must(e.Renew(first)) // by a second try
		handle, err := first.Detach(e.Ctx)
		e.Must(err)
		lease, err := q.Adopt(e.Ctx, handle)
		e.Must(err)
		before := e.Keys()
		late.Release()
		synctest.Wait()
		e.Unchanged(before)
		start := time.Now()
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, lease.ID()))
		e.Lost(lease)
		e.Within(start, 0, 0, "told")
	})
}

// Whoever gives up an adoption whose outcome is not known has nothing of it: the lease
// is still to be adopted, or is given back.
func TestAdoptionThatIsGivenUpLeavesNoLeaseWithoutAnOwner(t *testing.T) {
	for what, fault := range map[string]redistest.Fault{"late": redistest.Delay, "done": redistest.SwallowReply} {
		t.Run(what, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				p, q := e.Peer(), e.Peer()
				handle, err := e.Hold(p.Sem(1, berth.TTL(time.Hour))).Detach(e.Ctx)
				e.Must(err)
				struck := q.Net.Inject(redistest.Rule{Match: testenv.Carries("M"), Fault: fault})
				ctx, cancel := context.WithCancel(e.Ctx)
				failed := make(chan error)
				go func() { _, err := q.Adopt(ctx, handle); failed <- err }()
				<-struck.Hit()
				cancel()
				e.WantErr(<-failed, context.Canceled)
				e.Pass(20 * time.Second)
				struck.Release()
				synctest.Wait()
				lease, err := p.Adopt(e.Ctx, handle)
				if err == nil {
					e.Holds(lease)
					e.Release(lease)
				} else {
					e.WantErr(err, berth.ErrLost)
				}
				e.Idle()
			})
		})
	}
}

// A refusal does not say that nothing has happened, where a request before it got no answer.
func TestRefusalAfterNoAnswerIsNoVerdict(t *testing.T) {
	for name, ask := range map[string]func(e *testenv.Env, p *testenv.Peer, handle berth.Handle) error{
		"ReleaseHandle": func(e *testenv.Env, p *testenv.Peer, handle berth.Handle) error {
			return p.ReleaseHandle(e.Ctx, handle)
		},
		"RenewHandle": func(e *testenv.Env, p *testenv.Peer, handle berth.Handle) error {
			_, err := p.RenewHandle(e.Ctx, handle)
			return err
		},
		"Adopt": func(e *testenv.Env, p *testenv.Peer, handle berth.Handle) error {
			_, err := p.Adopt(e.Ctx, handle)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				p := e.Peer()
				e.Hold(p.Sem(2)) // connects
				handle, err := e.Hold(e.Peer().Sem(2)).Detach(e.Ctx)
				e.Must(err)
				lost := p.Net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowReply})
				told := make(chan error, 1)
				go func() { told <- ask(e, p, handle) }()
				testenv.Receive(e, "request", lost.Hit())
				key := e.Prefix + ":{" + testenv.Name + "}"
				e.Must(e.Redis.Rename(e.Ctx, key, "elsewhere").Err())
				e.Must(e.Redis.Set(e.Ctx, key, "foreign", 0).Err())
				if err := testenv.Receive(e, "answer", told); !errors.Is(err, berth.ErrUnreachable) ||
					errors.Is(err, berth.ErrCorrupt) || !strings.Contains(err.Error(), "WRONGTYPE") {
					e.Errorf("%v", err)
				}
				e.Must(e.Redis.Rename(e.Ctx, "elsewhere", key).Err())
			})
		})
	}
}

// TestReleasedHandleServesAllForWhomThereIsRoom: at once, however many they are.
func TestReleasedHandleServesAllForWhomThereIsRoom(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const n = 600 // one call grants 250
		p, q := e.Peer(), e.Peer()
		handle, err := e.Hold(p.Sem(n), berth.Weight(n)).Detach(e.Ctx)
		e.Must(err)
		waiters, s := make([]*testenv.Request, n), q.Sem(n)
		for i := range waiters {
			waiters[i] = e.Start(s)
		}
		e.UntilWaiting(n)
		start := time.Now()
		e.Must(p.ReleaseHandle(e.Ctx, handle))
		for _, w := range waiters {
			w.Granted()
		}
		e.Within(start, 0, 0, "all have been granted")
	})
}

// TestManyHandlesAtOnce: a handle takes twice the room of another operation in a call. Nobody
// who shares the call is turned away.
func TestManyHandlesAtOnce(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const n = 300 // more than fit into a call
		slow := 0     // on a real machine that has no time for an answer
		p, q := e.Peer(), e.Peer()
		s := p.Sem(4 * n)
		kept, given := make([]*berth.Lease, n), make([]*berth.Lease, n)
		for i := range n {
			kept[i], given[i] = e.Hold(s), e.Hold(s)
		}
		ended := make(chan error)
		start := func(f func() error) { go func() { ended <- f() }() }
		for i := range n {
			start(kept[i].Release)
			start(func() error {
				handle, err := given[i].Detach(e.Ctx)
				if err != nil {
					return err
				}
				lease, err := q.Adopt(e.Ctx, handle)
				if err != nil {
					return err
				}
				return lease.Release()
			})
			start(func() error { return s.Do(e.Ctx, func(context.Context) error { return nil }) })
		}
		for range 3 * n {
			switch err := <-ended; {
			case err == nil:
			case !e.Exact && errors.Is(err, berth.ErrUnreachable):
				slow++
			default:
				e.Error(err)
			}
		}
		if slow == 3*n {
			e.Error("none of them had an answer: nothing was tested")
		}
	})
}

// TestHandleKeepsItsSecret: what is printed or logged by mistake does not let its readers take the
// lease, but tells which semaphore it is of. What is sent does.
func TestHandleKeepsItsSecret(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		handle, err := e.Hold(p.Sem(1)).Detach(e.Ctx)
		e.Must(err)
		text := string(handle)
		secret := text[strings.LastIndex(text, "/")+1:]
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("given away", "handle", handle)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("given away", "handle", handle)
		shows := map[string]string{
			"in a struct": fmt.Sprintf("%+v", struct{ Handle berth.Handle }{handle}), "logged": log.String(),
			"altered": berth.Handle(text + "0").String(), "another": berth.Handle(secret).String(),
		}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			shows[format] = fmt.Sprintf(format, handle)
		}
		for how, shown := range shows {
			if strings.Contains(shown, secret) {
				e.Errorf("%s tells the secret: %s", how, shown)
			}
		}
		if !strings.Contains(handle.String(), "/"+testenv.Name+"/") {
			e.Errorf("%v does not tell of which semaphore it is", handle)
		}
		sent, err := json.Marshal(handle)
		e.Must(err)
		var got berth.Handle
		e.Must(json.Unmarshal(sent, &got))
		lease, err := p.Adopt(e.Ctx, got)
		e.Must(err)
		e.Release(lease)
	})
}
