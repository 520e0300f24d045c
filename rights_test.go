package berth_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// asBerth returns a client of a server that gives user berth these rights.
func asBerth(t *testing.T, s *redistest.Server, rights []string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", "berth", "reset", "on", ">secret"}
	for _, r := range rights {
		args = append(args, r)
	}
	s.Do(t, args...)
	return s.Client(t, func(o *redis.Options) { o.Username, o.Password = "berth", "secret" })
}

// TestDocumentedRightsSuffice: everything works for a user with the rights that
// the documentation names, and no more.
func TestDocumentedRightsSuffice(t *testing.T) {
	rights, _ := redistest.LeastRights(t, ".")
	rdb := asBerth(t, redistest.Start(t), rights)
	ctx := t.Context()
	first, second := rightsClient(t, rdb), rightsClient(t, rdb)
	holder := granted(first.Semaphore("rights", 1))
	waiter := granted(second.Semaphore("rights", 1))

	lease := granted(holder.Acquire(ctx))
	queued, got := make(chan struct{}), make(chan error, 1)
	go func() {
		l, err := waiter.Acquire(ctx, berth.OnQueued(onceClosing(queued)))
		if err == nil {
			err = l.Renew(ctx)
		}
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	<-queued
	in := first.Inspector()
	for name, err := range map[string]error{
		"pin": in.Pin(ctx, "rights", 1), "unpin": in.Unpin(ctx, "rights"), "pause": in.Pause(ctx, "rights"), "resume": in.Resume(ctx, "rights"),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := in.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
	if st, err := in.Show(ctx, "rights"); err != nil || len(st.Leases) != 1 || len(st.Queue) != 1 {
		t.Errorf("Show: %v, %v", st, err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func rightsClient(t *testing.T, rdb *redis.Client) *berth.Client {
	t.Helper()
	c := granted(berth.New(rdb))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// onceClosing returns a callback that closes c at its first call.
func onceClosing(c chan struct{}) func(berth.Place) {
	first := true
	return func(berth.Place) {
		if first {
			first = false
			close(c)
		}
	}
}

func granted[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestDocumentedRightsAreThoseUsed: the rights name the commands of the scripts,
// and those that the Go code sends, no more and no less.
func TestDocumentedRightsAreThoseUsed(t *testing.T) {
	used := []string{
		"eval", "evalsha", "info", "scan", // berth
		"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "ping", // its inbox
		"hello", // go-redis, when it connects
	}
	for _, text := range scriptTexts(t) {
		for _, m := range regexp.MustCompile(`(?:call|many)\('([A-Z]+)'`).FindAllStringSubmatch(text, -1) {
			used = append(used, strings.ToLower(m[1]))
		}
	}
	var documented []string
	rights, clustered := redistest.LeastRights(t, ".")
	for _, right := range append(rights, clustered...) {
		if command, ok := strings.CutPrefix(right, "+"); ok {
			documented = append(documented, command)
		}
	}
	slices.Sort(used)
	slices.Sort(documented)
	if used = slices.Compact(used); !slices.Equal(used, documented) {
		t.Errorf("used:       %v\ndocumented: %v", used, documented)
	}
}
