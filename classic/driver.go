package classic

import "context"

// Driver is a semaphore, whatever the algorithm, for programs that use more than
// one of them. Name, limit, time-outs and the client's clock are settled when it
// is made; a Driver stands for one client.
type Driver interface {
	// Acquire asks for one permit. With ok it is held until release is called
	// or its time-out comes. Without ok and err it was refused, release is nil
	// and the caller may come again. An algorithm with a queue of its own waits
	// in it until ctx ends, and returns that as err.
	Acquire(ctx context.Context) (release ReleaseFunc, ok bool, err error)
}

// ReleaseFunc gives back the permit that it was returned with; call it once. It
// returns true if the permit was held until now, and false if it had been lost
// before, as far as the algorithm can tell.
type ReleaseFunc func(ctx context.Context) (held bool, err error)

// Driver returns s as a Driver.
func (s *Basic) Driver() Driver { return driver{s.Acquire, s.Release} }

// Driver returns s as a Driver.
func (s *Fair) Driver() Driver { return driver{s.Acquire, s.Release} }

// Driver returns s as a Driver.
func (s *FairUnderLock) Driver() Driver { return driver{s.Acquire, s.Release} }

// driver turns identifiers into handles.
type driver struct {
	acquire func(context.Context) (string, bool, error)
	release func(context.Context, string) (bool, error)
}

// Acquire implements Driver: the handle that it returns remembers the identifier.
func (d driver) Acquire(ctx context.Context) (ReleaseFunc, bool, error) {
	id, ok, err := d.acquire(ctx)
	if err != nil || !ok {
		return nil, false, err
	}
	return func(ctx context.Context) (bool, error) { return d.release(ctx, id) }, true, nil
}
