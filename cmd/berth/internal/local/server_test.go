package local

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
)

// The store stays while something would be lost with it, also when nobody is
// connected: a detached lease, a pin, a pause. Under any prefix.
func TestInUse(t *testing.T) {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	rdb := connect.Through(func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(dir, "s"))
	})
	defer rdb.Close()
	client, err := berth.New(rdb, berth.Prefix("other:prefix"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
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
