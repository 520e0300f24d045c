package protocol

import (
	"testing"

	"github.com/berth-go/berth/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
