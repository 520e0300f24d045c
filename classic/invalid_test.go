package classic_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
)

// Every refusal comes from a client that would fail at its first command, so
// that an error other than ErrInvalid shows that something was sent.
func TestBadArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	rdb := unusable(t)
	var none *redis.Client
	opt := func(o ...classic.Option) []classic.Option { return o }
	for name, c := range map[string]struct {
		rdb   redis.UniversalClient
		name  string
		limit int
		opts  []classic.Option
	}{
		"no client":                {nil, "sem", 1, nil},
		"a nil client":             {none, "sem", 1, nil},
		"empty name":               {rdb, "", 1, nil},
		"limit 0":                  {rdb, "sem", 0, nil},
		"limit -1":                 {rdb, "sem", -1, nil},
		"time-out 0":               {rdb, "sem", 1, opt(classic.WithTimeout(0))},
		"time-out below 0":         {rdb, "sem", 1, opt(classic.WithTimeout(-time.Second))},
		"lock wait 0":              {rdb, "sem", 1, opt(classic.WithLockWait(0))},
		"lock time-out 0":          {rdb, "sem", 1, opt(classic.WithLockTimeout(0))},
		"lock time-out below 1 ms": {rdb, "sem", 1, opt(classic.WithLockTimeout(time.Microsecond))},
		"nil clock":                {rdb, "sem", 1, opt(classic.WithClock(nil))},
		"nil identifiers":          {rdb, "sem", 1, opt(classic.WithIDs(nil))},
		"nil option":               {rdb, "sem", 1, opt(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			basic, err := classic.NewBasic(c.rdb, c.name, c.limit, c.opts...)
			wantRefusal(t, basic == nil, err)
			fair, err := classic.NewFair(c.rdb, c.name, c.limit, c.opts...)
			wantRefusal(t, fair == nil, err)
			under, err := classic.NewFairUnderLock(c.rdb, c.name, c.limit, c.opts...)
			wantRefusal(t, under == nil, err)
			if c.limit == 1 {
				lock, err := classic.NewLock(c.rdb, c.name, c.opts...)
				wantRefusal(t, lock == nil, err)
			}
		})
	}
}

func TestEmptyIdentifiersAndNegativeWaitsAreRefused(t *testing.T) {
	rdb := unusable(t)
	lock, err := classic.NewLock(rdb, "sem")
	noError(t, err)
	_, ok, err := lock.Acquire(t.Context(), -1)
	wantRefusal(t, !ok, err)
	ok, err = lock.Release(t.Context(), "")
	wantRefusal(t, !ok, err)
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			ok, err := c(t, rdb, "sem", 1).Release(t.Context(), "")
			wantRefusal(t, !ok, err)
		})
	}
	fair := newFair(t, rdb, "sem", 1).(*classic.Fair)
	ok, err = fair.Refresh(t.Context(), "")
	wantRefusal(t, !ok, err)
}

func TestDefaultsAreTheTextsOwn(t *testing.T) {
	got := fmt.Sprint(classic.DefaultTimeout, classic.DefaultLockWait, classic.DefaultLockTimeout)
	if got != "10s 10ms 10s" {
		t.Fatalf("defaults are %s", got)
	}
}

func unusable(t *testing.T) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	noError(t, rdb.Close())
	return rdb
}

func wantRefusal(t *testing.T, nothing bool, err error) {
	t.Helper()
	wantError(t, err, classic.ErrInvalid)
	if !nothing {
		t.Fatal("a refusal came with a value")
	}
}
