package berth_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// init silences go-redis, which reports every refused connection by itself:
// here they are meant.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
