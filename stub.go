// Package berth is a distributed counting semaphore on Redis.
package berth

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

type Hooks struct{}
type Client struct{}

func New(rdb redis.UniversalClient, opts ...ClientOption) (*Client, error) { panic("stub") }
func (c *Client) Semaphore(name string, limit int, opts ...Option) (*Semaphore, error) {
	panic("stub")
}
func (c *Client) Adopt(ctx context.Context, handle string) (*Lease, error) { panic("stub") }
func (c *Client) Inspector() *Inspector                                    { panic("stub") }
func (c *Client) Close() error                                             { panic("stub") }

type Semaphore struct{}

func (s *Semaphore) Name() string                                                   { panic("stub") }
func (s *Semaphore) Limit() int                                                     { panic("stub") }
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lease, error)    { panic("stub") }
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lease, error) { panic("stub") }
func (s *Semaphore) With(ctx context.Context, fn func(context.Context) error, opts ...Option) error {
	panic("stub")
}
func (s *Semaphore) Options(opts ...Option) (*Semaphore, error)         { panic("stub") }
func AcquireAll(ctx context.Context, sems ...*Semaphore) (Leases, error) { panic("stub") }

type Leases []*Lease

func (l Leases) Release() error           { panic("stub") }
func (l Leases) Context() context.Context { panic("stub") }
func (l Leases) Valid() bool              { panic("stub") }

type Lease struct{}

func (l *Lease) Context() context.Context        { panic("stub") }
func (l *Lease) Name() string                    { panic("stub") }
func (l *Lease) ID() string                      { panic("stub") }
func (l *Lease) Slot() int                       { panic("stub") }
func (l *Lease) Token() int64                    { panic("stub") }
func (l *Lease) Weight() int                     { panic("stub") }
func (l *Lease) Limit() int                      { panic("stub") }
func (l *Lease) Valid() bool                     { panic("stub") }
func (l *Lease) ValidUntil() time.Time           { panic("stub") }
func (l *Lease) Renew(ctx context.Context) error { panic("stub") }
func (l *Lease) Release() error                  { panic("stub") }
func (l *Lease) Detach() (string, error)         { panic("stub") }
