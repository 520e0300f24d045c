package redistest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-go/berth/internal/child"
)

// shared is the server of the test binary.
var shared struct {
	inMain atomic.Bool // Main runs, which stops the server
	mu     sync.Mutex
	server *Server // guarded by mu; nil before the first use and after the last
	err    error   // guarded by mu; why there is none
}

// Shared returns the server that all tests of this binary share; the first call starts it.
// Tests run in parallel, so a test must use keys under its Prefix only, and a server from
// Start for everything that others would notice (FLUSHALL, CONFIG SET, Stop). The package's
// TestMain must call Main, which stops the server.
func Shared(t testing.TB) *Server {
	t.Helper()
	if !shared.inMain.Load() {
		t.Fatal("redistest.Shared needs `func TestMain(m *testing.M) { redistest.Main(m) }` in this package")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(nil)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package, with child.UsualSignals, stops the shared server, fails if
// goroutines are left, and exits. The options name goroutines that may stay. A test that checks for leaks itself
// should use goleak.IgnoreCurrent after its call of Shared.
func Main(m *testing.M, opts ...goleak.Option) {
	os.Exit(runMain(m, opts))
}

func runMain(m *testing.M, opts []goleak.Option) int {
	child.UsualSignals()
	shared.inMain.Store(true)
	waitTogether()
	code := m.Run()
	stopShared()
	if code != 0 {
		return code // a failed test may leave goroutines; do not bury its message
	}
	// Find waits for less than half a second, in which a busy machine may not end a goroutine.
	var err error
	for range 30 {
		if err = goleak.Find(append(opts, prober)...); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "goroutines left over after all tests:", err)
	return 1
}

// waitTogether lets more tests run at once than there are CPUs, because most of them wait,
// unless -parallel says how many.
func waitTogether() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))) // a number
	}
}

// prober ignores a goroutine of go-redis. After as many failed dials as its pool has places
// it tries the address again every second. It outlives its client by one attempt, which is
// longer than goleak waits.
var prober = goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		shared.server.Close()
		shared.server = nil
	}
}

var prefixes atomic.Int64

// Prefix returns a key prefix of ASCII letters and digits that is unique in this binary. No
// prefix begins with another one, so a scan for one does not find another's keys.
func (*Server) Prefix(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, t.Name())
	return fmt.Sprintf("t%dx%s", prefixes.Add(1), name[:min(len(name), 40)])
}
