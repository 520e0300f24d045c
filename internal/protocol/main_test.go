package protocol

import (
	"testing"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
