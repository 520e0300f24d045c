package look_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// audit returns what Audit yields.
func audit(e *testenv.Env) (all []berthadmin.Audited) {
	e.Helper()
	for a, err := range e.Inspector.Audit(e.Ctx) {
		e.Must(err)
		all = append(all, a)
	}
	return all
}

// TestAuditTellsWhatWasDone by whom and why, the latest first.
func TestAuditTellsWhatWasDone(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		held, waits := e.Hold(p.Sem(1)), e.Queue(p.Sem(1))
		in := e.Inspector.Because("ann@ops-1", "moving house")
		e.Must(in.Pause(e.Ctx, testenv.Name))
		e.Must(in.Resume(e.Ctx, testenv.Name))
		e.Must(in.Pin(e.Ctx, testenv.Name, 3))
		e.Must(e.Inspector.Because("bob", "").Unpin(e.Ctx, testenv.Name))
		e.Must(in.Resize(e.Ctx, testenv.Name, 2))
		e.Must(in.ForceEvict(e.Ctx, testenv.Name, held.ID()))
		next := waits.Granted()
		e.Must(in.Evict(e.Ctx, testenv.Name, next.ID()))
		e.Must(in.Purge(e.Ctx, testenv.Name))
		e.WantErr(in.Resume(e.Ctx, "absent"), berthadmin.ErrNotFound)
		e.WantErr(in.Pin(e.Ctx, testenv.Name, -1), berth.ErrInvalid)
		e.Must(e.Inspector.Pause(e.Ctx, "nobody tells"))
		want := []string{
			"purge  ann@ops-1 moving house", "evict " + next.ID() + " ann@ops-1 moving house", "evict --force " + held.ID() + " ann@ops-1 moving house",
			"resize 2 ann@ops-1 moving house from 1", "unpin  bob  from 3", "pin 3 ann@ops-1 moving house from 1", "resume  ann@ops-1 moving house", "pause  ann@ops-1 moving house",
		}
		all := audit(e)
		if len(all) != len(want) {
			e.Fatalf("audited %+v", all)
		}
		now := e.Redis.Time(e.Ctx).Val()
		for i, a := range all {
			got := strings.Join([]string{a.Verb, a.What, a.Who, a.Why}, " ")
			if a.From != "" {
				got += " from " + a.From
			}
			if got != want[i] || a.Name != testenv.Name || a.Error != "" || now.Sub(a.At).Abs() > time.Minute {
				e.Errorf("entry %d: %+v, want %s", i, a, want[i])
			}
		}
	})
}

// TestAuditLeavesOutWhatChangedNothing, so that the reason for a pause stays its reason.
func TestAuditLeavesOutWhatChangedNothing(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Sem(1))
		in := e.Inspector.Because("ann", "")
		for range 2 {
			e.Must(in.Resize(e.Ctx, testenv.Name, 10))
			e.Must(in.Pause(e.Ctx, testenv.Name))
			e.Must(in.Unpin(e.Ctx, testenv.Name))
		}
		for range 2 {
			e.Must(in.Pin(e.Ctx, testenv.Name, 10))
			e.Must(in.Resume(e.Ctx, testenv.Name))
		}
		var verbs []string
		for _, a := range audit(e) {
			verbs = append(verbs, a.Verb)
		}
		if got := strings.Join(verbs, " "); got != "resume pin pause resize" {
			e.Errorf("audited %s", got)
		}
	})
}

// TestAuditLeavesOutRatesThatStay, declared or pinned, and a pin of those in force is a change.
func TestAuditLeavesOutRatesThatStay(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Sem(1, berth.Rate(60, time.Hour)))
		in := e.Inspector.Because("ann", "")
		rate := berthadmin.Rate{N: 90, Per: time.Hour}
		for range 2 {
			_, _, err := in.SetRates(e.Ctx, testenv.Name, "", rate)
			e.Must(err)
			e.Must(in.UnpinRates(e.Ctx, testenv.Name))
		}
		for range 2 {
			_, _, err := in.PinRates(e.Ctx, testenv.Name, "", rate)
			e.Must(err)
		}
		e.Must(in.UnpinRates(e.Ctx, testenv.Name))
		var told []string
		for _, a := range audit(e) {
			told = append(told, a.Verb+" "+a.From+" -> "+a.What)
		}
		want := "unpin --rate  -> ;pin --rate 90 in 1h0m0s -> 90 in 1h0m0s;resize --rate 60 in 1h0m0s -> 90 in 1h0m0s"
		if got := strings.Join(told, ";"); got != want {
			e.Errorf("audited %s, want %s", got, want)
		}
	})
}

// TestAuditKeepsALongerPause: it replaces one that ends sooner, and a shorter one changes nothing.
func TestAuditKeepsALongerPause(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		in := e.Inspector.Because("ann", "")
		for _, d := range []time.Duration{time.Minute, time.Second, time.Hour, 0, 2 * time.Hour} {
			if d == 0 {
				e.Must(in.Pause(e.Ctx, testenv.Name))
			} else {
				e.Must(in.PauseFor(e.Ctx, testenv.Name, d))
			}
		}
		var lengths []string
		for _, a := range audit(e) {
			lengths = append(lengths, a.What)
		}
		if got := strings.Join(lengths, ","); got != ",1h0m0s,1m0s" {
			e.Errorf("audited pauses of %s", got)
		}
	})
}

// TestAuditTellsWhatItsCallerDidNotWaitFor: the change was under way when the caller's context
// ended, and may have been made.
func TestAuditTellsWhatItsCallerDidNotWaitFor(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		in := p.Inspector().Because("ann", "in a hurry")
		e.Must(in.Pin(e.Ctx, testenv.Name, 1))
		reply := p.Net.Inject(redistest.Rule{Fault: redistest.DelayReply, Match: testenv.Carries("P")})
		ctx, cancel := context.WithCancel(e.Ctx)
		go func() {
			<-reply.Hit()
			cancel()
		}()
		e.WantErr(in.Pin(ctx, testenv.Name, 2), context.Canceled)
		if all := audit(e); len(all) != 2 || all[0].What != "2" || !strings.Contains(all[0].Error, context.Canceled.Error()) || e.Show().Limit != 2 {
			e.Errorf("audited %+v", all)
		}
	})
}

// TestAuditLeavesOutWhatWasRefused, and does not complain that it could not be recorded.
func TestAuditLeavesOutWhatWasRefused(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		for _, rights := range [][]any{{}, {"+xadd"}} {
			e.Server.Do(e.T, append([]any{"ACL", "SETUSER", "berth", "reset", "on", ">secret", "~*", "+eval", "+evalsha"}, rights...)...)
			options := e.Options
			options.Username, options.Password = "berth", "secret"
			e.Options = options
			var log bytes.Buffer
			own, err := berthadmin.New(e.Peer().Redis, berthadmin.Options{Prefix: e.Prefix, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			e.Must(err)
			in := e.Patient(own)
			e.WantErr(in.Because("ann", "because").Pause(e.Ctx, testenv.Name), berth.ErrRefused)
			if strings.Contains(log.String(), "not recorded") {
				e.Errorf("logged %s", log.String())
			}
		}
		if all := audit(e); len(all) > 0 {
			e.Errorf("audited %+v", all)
		}
	})
}

// TestAuditIsNoSemaphore, and it does not grow for ever.
func TestAuditIsNoSemaphore(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		in := e.Inspector.Because("ann", "")
		for range 600 {
			e.Must(in.Pin(e.Ctx, "p", 1))
			e.Must(in.Pin(e.Ctx, "p", 2))
		}
		if n := len(audit(e)); n < 1000 || n > 1150 {
			e.Errorf("%d entries are kept", n)
		}
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) != 1 || all[0].Name != "p" {
			e.Errorf("listed %+v", all)
		}
	})
}

// told is a log whose lines can be waited for.
type told chan string

// Write implements io.Writer.
func (t told) Write(line []byte) (int, error) {
	t <- string(line)
	return len(line), nil
}

// TestAuditWithoutRights: what was to be done is done, and the log says what is missing.
func TestAuditWithoutRights(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		t, s := e.T, e.Server
		rights, _ := redistest.LeastRights(t, "../..")
		args := []any{"ACL", "SETUSER", "berth", "reset", "on", ">secret"}
		for _, r := range rights {
			args = append(args, r)
		}
		s.Do(t, args...)
		options := e.Options
		options.Username, options.Password = "berth", "secret"
		e.Options = options
		logged := make(told, 1)
		logger := slog.New(slog.NewTextHandler(logged, nil))
		own, err := berthadmin.New(e.Peer().Redis, berthadmin.Options{Prefix: e.Prefix, Logger: logger})
		e.Must(err)
		for i, in := range []*berthadmin.Inspector{e.Peer(berth.Logger(logger)).Inspector(), own} {
			in := e.Patient(in)
			e.Must(in.Because("ann", "because").Pin(e.Ctx, testenv.Name, i+1))
			if st := e.Show(); st.Limit != i+1 {
				t.Errorf("the limit is %d", st.Limit)
			}
			if text := testenv.Receive(e, "record", logged); !strings.Contains(text, "not recorded in the audit") || !strings.Contains(text, "NOPERM") {
				t.Errorf("logged %q", text)
			}
			for _, err := range in.Audit(e.Ctx) {
				e.WantErr(err, berth.ErrRefused)
			}
		}
	})
}

func TestAuditRefusesUnsafeTexts(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		for _, in := range []*testenv.Inspector{
			e.Inspector.Because("", "why"), e.Inspector.Because("a\x1b[31m", ""), e.Inspector.Because("a", "b\nc"), e.Inspector.Because("a", strings.Repeat("x", 501)),
		} {
			e.WantErr(in.Pause(e.Ctx, testenv.Name), berth.ErrInvalid)
		}
		e.Unchanged(map[string]string{})
	})
}
