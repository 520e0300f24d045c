package redistest

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestEmbeddedOutlivesLateDials: a client that is still dialing when the test ends meets
// a store that is open, and closes the connection at its end. A closed one would start
// again, and stay.
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
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("a late connection ended with %v", err)
				}
			}()
		})
	})
}
