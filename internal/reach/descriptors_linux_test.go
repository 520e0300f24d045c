package reach_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/reach"
)

// TestWithoutDescriptorsALookupTellsNothing: a process that has used them up cannot look up a
// name either, and must not take that for an outage. It is another process, for the limit is
// that of all its tests.
func TestWithoutDescriptorsALookupTellsNothing(t *testing.T) {
	const poor = "BERTH_TEST_WITHOUT_DESCRIPTORS"
	if os.Getenv(poor) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), poor+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	giveBack := useUpDescriptors(t)
	failed := map[string]error{}
	for _, addr := range []string{"127.0.0.1:6379", "localhost:6379", "redis.example.com:6379"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		failed[addr] = reach.Redis(t.Context(), rdb)
		rdb.Close()
	}
	giveBack()
	for addr, err := range failed {
		if err == nil || errors.Is(err, reach.ErrAway) || !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: %v, want EMFILE and not ErrAway", addr, err)
		}
	}
}

// useUpDescriptors leaves this process none, until giveBack.
func useUpDescriptors(t *testing.T) (giveBack func()) {
	t.Helper()
	var files []*os.File
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
}
