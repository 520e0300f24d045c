package cli

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/internal/measure"
)

// pinned is set in a process that keeps to its CPUs already.
const pinned = "BERTH_BENCH_PINNED"

// pin runs the program again on these CPUs alone, and with it every process
// that it starts. It returns only if there is nothing to do, or an error.
func pin(cpus string) error {
	if cpus == "" || os.Getenv(pinned) != "" {
		return nil
	}
	var set unix.CPUSet
	for word := range strings.SplitSeq(cpus, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n >= runtime.NumCPU() {
			return measure.Errorf(measure.Usage, "--pin %s: this machine has the CPUs 0 to %d", cpus, runtime.NumCPU()-1)
		}
		set.Set(n)
	}
	runtime.LockOSThread() // what this thread keeps to, the new program does
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return measure.Errorf(measure.Unavailable, "--pin %s: %w", cpus, err)
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(path, os.Args, append(os.Environ(), pinned+"=1")) //nolint:gosec // itself
}
