//go:build !linux

package cli

// pin cannot do it here.
func pin(cpus string) error {
	if cpus == "" {
		return nil
	}
	return errorf(usage, "--pin works on Linux only")
}
