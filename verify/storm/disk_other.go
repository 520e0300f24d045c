//go:build !linux

package storm

import "github.com/berth-go/berth/internal/redistest"

func mountDisk(s *storm) []redistest.Option {
	s.Skip("a full disk needs a small tmpfs, which is Linux's")
	return nil
}
