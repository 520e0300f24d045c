package storm

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

//go:embed preload/clock.c
var shimSource []byte

// shim is the server's clock.
type shim struct {
	file    string
	by      time.Duration // ahead of the machine's
	latest  time.Time     // that it had shown when it was stepped
	stepped bool          // during the storm
}

// shimClock returns the options that start the server with a clock that can be
// stepped. libfaketime can do that, too, but some builds of the server hang with it.
func shimClock(s *storm) []redistest.Option {
	if runtime.GOOS != "linux" {
		s.Skip("the server's clock is stepped by LD_PRELOAD, which is Linux's")
	}
	source, library := filepath.Join(s.dir, "shim.c"), filepath.Join(s.dir, "shim.so")
	s.check(os.WriteFile(source, shimSource, 0o600))
	if text, err := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		s.Fatalf("cc: %v: %s", err, text)
	}
	s.shim = &shim{file: filepath.Join(s.dir, "clock")}
	s.shim.set(s, 0)
	return []redistest.Option{redistest.WithEnv("LD_PRELOAD="+library, "BERTH_VERIFY_CLOCK="+s.shim.file)}
}

// set writes the step into the file, which the server has mapped into its memory.
func (c *shim) set(s *storm, by time.Duration) {
	c.by = by
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	s.check(err)
	defer f.Close()
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(by.Microseconds()))
	_, err = f.WriteAt(b[:], 0)
	s.check(err)
}

// step is set, and returns how far the clock is behind the latest time that it has shown.
func (c *shim) step(s *storm, by time.Duration) (behind time.Duration) {
	now := time.Now()
	if shown := now.Add(c.by); shown.After(c.latest) {
		c.latest = shown
	}
	c.stepped = true
	c.set(s, by)
	return max(c.latest.Sub(now.Add(by)), 0)
}

// soonClock is shimClock on Linux and nothing elsewhere. With it the minutes that some
// repairs take can be skipped after the storm.
func soonClock(s *storm) []redistest.Option {
	if runtime.GOOS != "linux" {
		return nil
	}
	return shimClock(s)
}

// skip makes time pass for the server, when no client relies on its clock any more.
func (s *storm) skip(d time.Duration) {
	if s.shim == nil {
		pause(d)
		return
	}
	s.shim.set(s, s.shim.by+d)
}

// stepClock steps the server's clock forward or back. Only a step forward makes the
// server forget leases early.
func stepClock(s *storm) history.Event {
	by := s.between(-4*time.Second, 4*time.Second)
	e := history.Event{Text: "server clock stepped back", Steps: true}
	if by > s.shim.by {
		e.Text, e.Breaks = "server clock stepped forward", true
	}
	e.Behind = s.shim.step(s, by)
	return e
}
