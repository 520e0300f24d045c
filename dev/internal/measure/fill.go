package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// AtOnce calls f for 0 to n-1, many at once, until all are done or some have failed. Of the
// errors, which are mostly the same, it returns one.
func AtOnce(n int, f func(i int) error) error {
	const workers = 512
	errs := make([]error, min(n, workers))
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(i)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// FillBasic writes what n acquires of classic.Basic, made at a time, would leave at a key. Making the
// acquires instead would take hours where the cost of each grows with the holders.
func FillBasic(ctx context.Context, rdb redis.Cmdable, key string, n int, at time.Time) error {
	return addMembers(ctx, rdb, key, n, func(int) float64 { return float64(at.UnixMilli()) / 1000 })
}

// FillFair is FillBasic for classic.Fair.
func FillFair(ctx context.Context, rdb redis.Cmdable, key string, n int, at time.Time) error {
	return errors.Join(FillBasic(ctx, rdb, key, n, at), rdb.Set(ctx, key+":counter", n, 0).Err(),
		addMembers(ctx, rdb, key+":owner", n, func(i int) float64 { return float64(i + 1) }))
}

// addMembers writes n members, as long as the identifiers of package classic, into a sorted set.
func addMembers(ctx context.Context, rdb redis.Cmdable, key string, n int, score func(i int) float64) error {
	const batch = 1000
	for from := 0; from < n; from += batch {
		var members []redis.Z
		for i := from; i < min(n, from+batch); i++ {
			members = append(members, redis.Z{Score: score(i), Member: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)})
		}
		if err := rdb.ZAdd(ctx, key, members...).Err(); err != nil {
			return err
		}
	}
	return nil
}
