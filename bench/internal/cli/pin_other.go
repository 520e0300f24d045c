//go:build !linux

package cli

import "github.com/berth-go/berth/internal/measure"

// pin cannot do it here.
func pin(cpus string) error {
	if cpus == "" {
		return nil
	}
	return measure.Errorf(measure.Usage, "--pin works on Linux only")
}
