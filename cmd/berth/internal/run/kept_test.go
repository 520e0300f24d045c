package run

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
)

// A damaged semaphore does not free its permits after a TTL, and says itself when it does.
func TestKeptPromisesNoTTLOfADamagedSemaphore(t *testing.T) {
	t.Parallel()
	if text := Kept(30*time.Second, berth.ErrUnreachable); !strings.Contains(text, "free again within 30s") {
		t.Errorf("unreachable: %s", text)
	}
	damaged := &berth.CorruptError{Name: "s", Heals: 82 * time.Second, Err: errors.New("heals in 82 s")}
	if text := Kept(30*time.Second, damaged); strings.Contains(text, "within 30s") || !strings.Contains(text, "82 s") {
		t.Errorf("damaged: %s", text)
	}
}
