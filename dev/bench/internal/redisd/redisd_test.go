package redisd

import (
	"testing"

	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

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
	if n, err := Clean(t.Context(), rdb, prefix); err != nil || n != len(mine) {
		t.Errorf("%d keys removed, %v", n, err)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("%d keys of others are left of 2", n)
	}
}
