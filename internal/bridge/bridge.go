// Package bridge gives package berthpool what a pool needs of package berth and
// users do not, so that it is no part of berth's API. An import the other way round
// would be a cycle, so package berth sets the functions when it is initialized.
package bridge

import (
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// Semaphore returns this process's side of a *berth.Semaphore, the terms of its
// leases, and whether their holders renew them.
var Semaphore func(sem any) (inner *session.Semaphore, terms *protocol.Terms, manual bool)

// Trust returns until when the holder of a *berth.Lease may rely on it; the zero
// Instant when the lease is over. Renewals move it, and only ever to a later time.
var Trust func(lease any) clock.Instant
