package redistest

import (
	"context"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// lateDials is how long go-redis may take to end the dials that it has begun in the
// background, also after Close of the client. It is the bubble's time, and costs none.
const lateDials = time.Minute

// NewEmbedded returns an embedded store for a test in a testing/synctest bubble, whose
// keys expire by the bubble's clock. It is closed when the test ends, after all dials
// that are still under way: to dial a store while it closes is a data race.
func NewEmbedded(t interface{ Cleanup(func()) }) *miniredis.Miniredis {
	store := miniredis.NewMiniRedis()
	store.ClockTTL(true)
	t.Cleanup(func() {
		<-time.After(lateDials)
		store.Close()
	})
	return store
}

// Embedded returns a dialer for a store in this process. It uses no sockets, so it works
// in a testing/synctest bubble.
func Embedded(store *miniredis.Miniredis) DialFunc {
	return func(context.Context, string, string) (net.Conn, error) { return store.Dial() }
}
