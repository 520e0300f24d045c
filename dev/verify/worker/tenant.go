package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// A burst comes every burstEvery, and half of that time is without new requests.
const burstEvery = 800 * time.Millisecond

// gather waits until all others ask, too.
func (u *user) gather(ctx context.Context) {
	into := history.Now().Sub(u.Start) % burstEvery
	if into > burstEvery/2 {
		pause(ctx, burstEvery-into)
	}
}

func (u *user) burst(ctx context.Context) {
	u.gather(ctx)
	u.tenant = u.whose()
	switch {
	case u.spec.Fair:
		u.visit(ctx, u.between(0, 2*time.Millisecond))
	case u.tenant == vain && !u.one(4):
		u.call(ctx, u.between(time.Millisecond, 10*time.Millisecond), 0)
	default:
		u.visit(ctx, u.between(0, 10*time.Millisecond))
	}
}

// vain is a tenant most of whose requests are given up.
const vain = "vain"

// whose returns for whom the next request is: half of all are for one, some for a second, and a few for
// nobody. Newcomers are always others.
func (u *user) whose() string {
	const tenants = 100
	switch {
	case u.spec.New:
		return fmt.Sprintf("n%d.%d", u.Proc, u.rng.Int64())
	case u.one(2):
		return "greedy"
	case u.spec.Fair && !u.one(4), u.one(3):
		return "second"
	case !u.spec.Fair && u.one(4):
		return vain
	case u.one(10):
		return ""
	}
	return fmt.Sprint("t", 1+u.rng.IntN(tenants-1))
}
