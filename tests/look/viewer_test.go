package look_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// eachViewer runs body for each of the users that the documentation has for those who only look, on
// a server of its own.
func eachViewer(t *testing.T, body func(e *testenv.Env, user string)) {
	t.Helper()
	for _, user := range []string{"viewer", "reader"} {
		t.Run(user, func(t *testing.T) {
			if user == "reader" {
				redistest.NeedsReadOnlyScripts(t)
			}
			testenv.OwnServer(t, nil, func(e *testenv.Env) { body(e, user) })
		})
	}
}

// viewer returns an Inspector of a user who has the rights that the documentation names for it.
func viewer(e *testenv.Env, user string) *berthadmin.Inspector {
	e.Helper()
	args := []any{"ACL", "SETUSER", user, "reset", "on", ">secret"}
	for _, right := range redistest.RightsOf(e, "../..", user) {
		args = append(args, right)
	}
	e.Server.Do(e, args...)
	rdb := e.Server.Client(e, func(o *redis.Options) { o.Username, o.Password = user, "secret" })
	in, err := berthadmin.New(rdb, berthadmin.Options{Prefix: e.Prefix})
	e.Must(err)
	return in
}

// TestLookingNeedsNoRightToWrite: a user who must not write sees everything, hears what
// happens, and is denied nothing that it tries but, once, to run a script that may write.
func TestLookingNeedsNoRightToWrite(t *testing.T) {
	eachViewer(t, func(e *testenv.Env, user string) {
		t, s := e.T, e.Server
		p := e.Peer()
		held := e.Hold(p.Sem(1))
		next := e.Queue(p.Sem(1))
		e.Hold(p.Named("alone", 1))
		e.Must(e.Redis.ScriptFlush(e.Ctx).Err())
		e.Inspector.Inspector = viewer(e, user)
		heard := listen(e)
		heard.await(berthadmin.EventListening, "")
		names, _, err := e.Inspector.Names(e.Ctx, "", 1000)
		e.Must(err)
		if slices.Sort(names); !slices.Equal(names, []string{"alone", testenv.Name}) {
			t.Errorf("names %q", names)
		}
		for _, o := range []berthadmin.SampleOptions{{}, {Records: true}} {
			states, errs := sampled(e, o, names...)
			e.Must(errors.Join(errs["alone"], errs[testenv.Name]))
			if st := states[testenv.Name]; st.Holders != 1 || st.Waiting != 1 {
				t.Errorf("sampled %+v", st)
			}
		}
		e.Must(held.Release())
		heard.await(berthadmin.EventHandoff, next.Granted().ID())
		denied := map[string][]string{"reader": {"evalsha"}}[user]
		if tried := s.Denied(t); !slices.Equal(tried, denied) {
			t.Errorf("it was denied %v, want %v", tried, denied)
		}
		if err := e.Inspector.Pause(e.Ctx, testenv.Name); !errors.Is(err, berth.ErrRefused) {
			t.Errorf("the viewer paused a semaphore: %v", err)
		}
	})
}

// TestWhoMayNotWriteIsToldOfNobodyWhoIsGone: List and Show leave out what has expired, which such a
// user cannot remove, and what is left where one key was lost; nothing changes.
func TestWhoMayNotWriteIsToldOfNobodyWhoIsGone(t *testing.T) {
	eachViewer(t, func(e *testenv.Env, user string) {
		dead, alive := e.Peer(), e.Peer()
		for _, name := range []string{"shared", "gone", "half"} {
			e.Hold(dead.Named(name, 3, berth.TTL(e.TTL)))
			if name != "gone" {
				e.Hold(dead.Named(name, 3, berth.TTL(e.TTL)))
			}
		}
		held := e.Hold(alive.Named("shared", 3, berth.TTL(time.Hour))) // nothing of it comes in between
		e.Hold(alive.Named("alone", 1, berth.TTL(time.Hour)))
		dead.Crash()
		e.Must(e.Redis.Del(e.Ctx, e.Prefix+":{half}").Err())
		e.Pass(e.TTL + time.Millisecond)
		before := e.Keys()
		in := e.Patient(viewer(e, user))

		all, err := testenv.Listed(in.List(e.Ctx))
		e.Must(err)
		seen := map[string]berthadmin.Summary{}
		for _, sum := range all {
			seen[sum.Name] = sum
		}
		if got := seen["shared"]; len(seen) != 2 || got.Holders != 1 || got.InUse != 1 || got.Expired != 0 || got.NextExpiry < time.Minute || seen["alone"].InUse != 1 {
			e.Errorf("listed %+v", all)
		}
		if st, err := in.Show(e.Ctx, "shared"); err != nil || st.InUse != 1 || len(st.Leases) != 1 || st.Leases[0].ID != held.ID() {
			e.Errorf("showed %+v, %v", st, err)
		}
		for _, name := range []string{"gone", "half"} {
			if st, err := in.Show(e.Ctx, name); !errors.Is(err, berthadmin.ErrNotFound) {
				e.Errorf("showed %+v, %v", st, err)
			}
		}
		e.WantErr(in.Pin(e.Ctx, "shared", 1), berth.ErrRefused)
		e.WantErr(in.Resize(e.Ctx, "shared", 1), berth.ErrRefused)
		e.Unchanged(before)
	})
}
