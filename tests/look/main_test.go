// Package look_test tests what operators see of semaphores.
package look_test

import (
	"testing"

	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
