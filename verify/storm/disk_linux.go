package storm

import (
	"fmt"
	"os"
	"syscall"

	"github.com/berth-go/berth/internal/redistest"
)

// mountDisk gives the server a disk of 4 MB, which only root can mount.
func mountDisk(s *storm) []redistest.Option {
	dir, err := os.MkdirTemp("", "berth-disk-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		s.Skipf("a full disk needs a small tmpfs, which only root may mount: %v", err)
	}
	s.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			s.Errorf("unmount %s: %v", dir, err)
		}
	})
	s.disk = dir
	return []redistest.Option{redistest.WithConfig(fmt.Sprintf("dir %q", dir))}
}
