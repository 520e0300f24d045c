//go:build testall

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestAgent asks the agent of a process by curl, on each kind of store.
func TestAgent(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]func(*testscript.Env) error{
		"embedded": inEmbeddedStore, "redis": inRedis(redistest.Start(t).URL()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, params("testdata/agent/store", setup))
		})
	}
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		testscript.Run(t, params("testdata/agent/local", inOwnStore))
	})
}
