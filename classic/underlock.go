package classic

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// FairUnderLock is the chapter's last semaphore (section 6.3.4): a Fair whose
// Acquire runs under a Lock of the same name, so that drawing a number and
// ranking by it are one step to every client that takes the lock as well. The
// chapter's listing calls a lock without an expiry; this one has the expiry that
// its prose asks for.
//
// Known faults, all of them the algorithm's:
//   - An Acquire that does not get the lock in time fails, with permits free.
//   - A client that crashes or is paused in its Acquire stops all others for
//     the lock's time-out. If it wakes later than that, the race of Fair is
//     back.
//   - The cost, the common time-out and the lost places of Fair remain.
//   - It protects nothing from clients that use Fair on the same name.
type FairUnderLock struct {
	fair *Fair
	lock *Lock
}

// NewFairUnderLock returns the semaphore name with limit permits and the lock
// lock:NAME. It sends nothing; clients agree on name and limit by themselves.
func NewFairUnderLock(rdb redis.UniversalClient, name string, limit int, opts ...Option) (*FairUnderLock, error) {
	fair, err := NewFair(rdb, name, limit, opts...)
	if err != nil {
		return nil, err
	}
	lock, err := NewLock(rdb, name, opts...)
	if err != nil {
		return nil, err
	}
	return &FairUnderLock{fair, lock}, nil
}

// Acquire tries once to get a permit, and for its lock wait (WithLockWait) to
// get the lock before. With ok, id holds the permit like one of Fair. Without,
// there was no room, or the lock was taken all the time (see Lock.Acquire). After
// an error id may hold a place until its time-out, and the lock may be held until
// its own. A lock that cannot be released is no error: it runs out.
func (s *FairUnderLock) Acquire(ctx context.Context) (id string, ok bool, err error) {
	if err := made(s != nil && s.lock != nil); err != nil {
		return "", false, err
	}
	key, ok, err := s.lock.Acquire(ctx, s.lock.lockWait)
	if err != nil || !ok {
		return "", false, err
	}
	defer s.unlock(ctx, key)
	return s.fair.Acquire(ctx)
}

// unlock releases the lock even if ctx has ended: everybody waits for it. As in
// the chapter, whether it was still this client's is not looked at.
func (s *FairUnderLock) unlock(ctx context.Context, key string) {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	_, _ = s.lock.Release(ctx, key)
}

// Release gives the permit back, without the lock; see Fair.Release.
func (s *FairUnderLock) Release(ctx context.Context, id string) (bool, error) {
	if err := made(s != nil && s.lock != nil); err != nil {
		return false, err
	}
	return s.fair.Release(ctx, id)
}

// Refresh makes the time-out start again, without the lock; see Fair.Refresh.
func (s *FairUnderLock) Refresh(ctx context.Context, id string) (bool, error) {
	if err := made(s != nil && s.lock != nil); err != nil {
		return false, err
	}
	return s.fair.Refresh(ctx, id)
}
