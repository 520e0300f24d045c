package berthweb

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestErrorIsNotKeptAsLongAsAnAnswer: when Redis is back, the page says so within a second.
func TestErrorIsNotKeptAsLongAsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cached[int]
		asked, away := 0, errors.New("away")
		get := func() (int, error) {
			return c.get(t.Context(), time.Minute, time.Second, func(context.Context) (int, error) {
				asked++
				return asked, away
			})
		}
		for range 3 {
			if _, err := get(); !errors.Is(err, away) || asked != 1 {
				t.Fatalf("asked %d times within a second: %v", asked, err)
			}
		}
		<-time.After(errorFor)
		away = nil
		if n, err := get(); n != 2 || err != nil {
			t.Errorf("after a second %d, %v", n, err)
		}
		<-time.After(time.Minute - 1)
		if n, err := get(); n != 2 || err != nil {
			t.Errorf("an answer is kept: %d, %v", n, err)
		}
	})
}
