package redistest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestEmbeddedOutlivesLateDials: a client that is still dialing when the test ends meets
// a store that is open.
func TestEmbeddedOutlivesLateDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewEmbedded(t)
		t.Cleanup(func() {
			go func() {
				<-time.After(lateDials - time.Second)
				c, err := Embedded(store)(t.Context(), "tcp", "127.0.0.1:1")
				if err != nil {
					t.Errorf("a late dial: %v", err)
					return
				}
				_ = c.Close()
			}()
		})
	})
}
