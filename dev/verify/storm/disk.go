package storm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// mountDisk gives the server a disk of 4 MB, which only root can mount.
func mountDisk(s *storm) []redistest.Option {
	if runtime.GOOS != "linux" {
		s.Skip("a full disk needs a small tmpfs, which is Linux's")
	}
	s.disk = s.TempDir()
	if text, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", s.disk).CombinedOutput(); err != nil {
		s.Skipf("a full disk needs a small tmpfs, which only root may mount: %v: %s", err, text)
	}
	s.Cleanup(func() {
		if text, err := exec.Command("umount", "--lazy", s.disk).CombinedOutput(); err != nil {
			s.Errorf("umount %s: %v: %s", s.disk, err, text)
		}
	})
	return []redistest.Option{redistest.WithConfig(fmt.Sprintf("dir %q", s.disk))}
}

// fillDisk fills the disk for a while, so that the AOF cannot be written.
func fillDisk(s *storm) history.Event {
	file := filepath.Join(s.disk, "ballast")
	_ = os.WriteFile(file, make([]byte, 16<<20), 0o600) // it fails when the disk is full
	pause(s.between(200*time.Millisecond, 2*time.Second))
	if err := os.Remove(file); err != nil {
		s.Error(err)
	}
	return history.Event{Text: "disk full"}
}
