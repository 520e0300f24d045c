package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
)

// listen starts a store, and a client of it under another prefix.
func listen(t *testing.T) (*Server, *berth.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	server, err := Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	rdb := connect.Through(func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(dir, "s"))
	})
	t.Cleanup(func() { rdb.Close() })
	client, err := berth.New(rdb, berth.Prefix("other:prefix"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return server, client
}

// TestStaysWhileSomethingWouldBeLost, though nobody is connected and the time is over; and goes then.
func TestStaysWhileSomethingWouldBeLost(t *testing.T) {
	server, _ := listen(t)
	// Such a connection is not one of a client.
	rdb := connect.Through(func(context.Context, string, string) (net.Conn, error) { return server.store.Dial() })
	defer rdb.Close()
	in, err := berthadmin.New(rdb, berthadmin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Pin(t.Context(), "s", 1); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		server.waitIdle(t.Context(), time.Millisecond)
	}()
	looks := time.NewTicker(time.Millisecond)
	defer looks.Stop()
	for before := server.store.TotalConnectionCount(); server.store.TotalConnectionCount() < before+5; { // it has looked several times
		select {
		case <-gone:
			t.Fatal("it is gone, and the pin with it")
		case <-looks.C:
		}
	}
	if err := in.Unpin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("it stays for ever")
	}
	if server.count(+1) {
		t.Error("it takes a client though it goes")
	}
}

// TestStaysForWhoConnectsAtLast: a client that has come since it was found idle keeps it.
func TestStaysForWhoConnectsAtLast(t *testing.T) {
	server, client := listen(t)
	server.mu.Lock()
	found := server.changed
	server.mu.Unlock()
	if err := berthadmin.Of(client).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if server.retire(found) || !server.count(+1) {
		t.Error("it goes, and a client is connected")
	}
	server.count(-1)
}

// The store stays while something would be lost with it, also when nobody is
// connected: a detached lease, a pin, a pause. Under any prefix.
func TestInUse(t *testing.T) {
	server, client := listen(t)
	ctx := t.Context()
	want := func(used bool, when string) {
		t.Helper()
		if got := server.inUse(ctx); got != used {
			t.Errorf("%s: in use is %v, want %v", when, got, used)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want(false, "at first")

	sem, err := client.Semaphore("s", 2)
	must(err)
	lease, err := sem.Acquire(ctx)
	must(err)
	handle, err := lease.Detach(t.Context())
	must(err)
	want(true, "with a detached lease")
	lease, err = client.Adopt(ctx, handle)
	must(err)
	must(lease.Release())
	want(false, "after its release")

	in := berthadmin.Of(client)
	must(in.Pin(ctx, "s", 1))
	want(true, "with a pin")
	must(in.Unpin(ctx, "s"))
	want(false, "without the pin")
	must(in.Pause(ctx, "s"))
	want(true, "while paused")
	must(in.Resume(ctx, "s"))
	want(false, "when resumed")
}
