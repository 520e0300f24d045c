package classic

import (
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// The chapter's defaults.
const (
	// DefaultTimeout is how long a permit lasts without a refresh.
	DefaultTimeout = 10 * time.Second
	// DefaultLockWait is how long FairUnderLock tries to get its lock.
	DefaultLockWait = 10 * time.Millisecond
	// DefaultLockTimeout is the expiry of a Lock that is not released.
	DefaultLockTimeout = 10 * time.Second
)

// ErrInvalid is what every refusal of an argument is to errors.Is. Nothing was
// sent to Redis.
var ErrInvalid = errors.New("classic: invalid argument")

// Option configures a semaphore or a lock. One that does not apply to the type
// is checked and has no effect.
type Option func(*config)

type config struct {
	timeout     time.Duration
	lockWait    time.Duration
	lockTimeout time.Duration
	clock       func() time.Time
	newID       func() string
}

// WithTimeout sets after what time a permit counts as given up; default
// DefaultTimeout, above 0. As in the chapter it belongs to the caller, not
// to the holder: an Acquire removes whatever is older than its own
// time-out.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithLockWait sets how long FairUnderLock tries to get its lock before it
// gives up; default DefaultLockWait, above 0.
func WithLockWait(d time.Duration) Option { return func(c *config) { c.lockWait = d } }

// WithLockTimeout sets after what time Redis drops a lock that its holder does
// not release; default DefaultLockTimeout, at least a millisecond. There is no
// lock without it.
func WithLockTimeout(d time.Duration) Option { return func(c *config) { c.lockTimeout = d } }

// WithClock sets where the scores come from; default time.Now. It stands for
// the clock of the client's machine. Waiting for a lock does not use it.
func WithClock(now func() time.Time) Option { return func(c *config) { c.clock = now } }

// WithIDs sets where the identifiers come from; default random UUIDs. They
// must be unique over all clients of the semaphore and not empty. newID may be
// called by several goroutines at once.
func WithIDs(newID func() string) Option { return func(c *config) { c.newID = newID } }

func newConfig(opts []Option) (config, error) {
	c := config{
		timeout:     DefaultTimeout,
		lockWait:    DefaultLockWait,
		lockTimeout: DefaultLockTimeout,
		clock:       time.Now,
		newID:       uuid4,
	}
	for _, o := range opts {
		if o == nil {
			return c, invalid("an option is nil: leave it out")
		}
		o(&c)
	}
	return c, c.validate()
}

func (c *config) validate() error {
	switch {
	case c.timeout <= 0:
		return invalid("time-out %v: give one above 0", c.timeout)
	case c.lockWait <= 0:
		return invalid("lock wait %v: give one above 0", c.lockWait)
	case c.lockTimeout < time.Millisecond:
		return invalid("lock time-out %v: give at least 1ms, which is what Redis can count", c.lockTimeout)
	case c.clock == nil:
		return invalid("the clock is nil: leave WithClock out to use the machine's")
	case c.newID == nil:
		return invalid("the identifier source is nil: leave WithIDs out to use random ones")
	}
	return nil
}

// semaphore is what Basic and Fair have in common.
type semaphore struct {
	config
	rdb   redis.UniversalClient
	name  string
	limit int
}

func newSemaphore(rdb redis.UniversalClient, name string, limit int, opts []Option) (semaphore, error) {
	if err := validTarget(rdb, name); err != nil {
		return semaphore{}, err
	}
	if limit < 1 {
		return semaphore{}, invalid("limit %d of semaphore %q: give at least 1", limit, name)
	}
	c, err := newConfig(opts)
	return semaphore{config: c, rdb: rdb, name: name, limit: limit}, err
}

// made refuses a semaphore or lock that a New function has not made.
func made(yes bool) error {
	if !yes {
		return invalid("it was not made by a New function, or that failed: look at its error")
	}
	return nil
}

func validTarget(rdb redis.UniversalClient, name string) error {
	// A nil *redis.Client in the interface is not nil itself, but panics later.
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return invalid("the Redis client is nil: make one with redis.NewClient")
	}
	if name == "" {
		return invalid("the name is empty: it is the key in Redis")
	}
	return nil
}

func validID(id string) error {
	if id == "" {
		return invalid("the identifier is empty: give the one that Acquire returned")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// now is the score of something that happens at this moment.
func (c *config) now() float64 { return seconds(c.clock()) }

// seconds adds two numbers that a float64 holds well. UnixNano does not fit
// into its 53 bits: dividing that would round twice, and spoil the last digit.
func seconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// uuid4 returns 122 random bits in the form of RFC 9562, version 4.
func uuid4() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
