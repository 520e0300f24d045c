package redisd

import (
	"strings"
	"testing"

	"github.com/berth-go/berth/internal/measure"
	"github.com/berth-go/berth/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", "")
	_, err := Start()
	if err == nil || !strings.Contains(err.Error(), "redis-server is not on PATH: install it with") {
		t.Errorf("error %v", err)
	}
}

func TestOwnServerAnswersAndKeepsNothing(t *testing.T) {
	t.Parallel()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	rdb := Client(s.URL())
	defer rdb.Close()
	for name, want := range map[string]string{"save": "", "appendonly": "no"} {
		if got := rdb.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if v := measure.Version(t.Context(), rdb); v == "unknown" {
		t.Error("it does not tell its version")
	}
	s.Close()
	if err := Ping(t.Context(), s.URL()); err == nil {
		t.Error("it answers after its end")
	}
}

func TestCleanRemovesThePrefixAndNothingElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTCP())
	url := "redis://" + s.Addr()
	rdb := Client(url)
	defer rdb.Close()
	prefix := measure.NewPrefix("berth-bench-")
	mine := []string{prefix + "a", "lock:" + prefix + "b", "semaphore:" + prefix}
	for _, key := range append(mine, "berth-bench", "other") {
		if err := rdb.Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Clean(t.Context(), url, prefix); err != nil || n != len(mine) {
		t.Errorf("%d keys removed, %v", n, err)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("%d keys of others are left of 2", n)
	}
}
