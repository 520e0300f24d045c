//go:build !linux

package job

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func endWithParent(*syscall.SysProcAttr) {}

func adoptOrphans() {}

// table returns all processes, by ps with options of POSIX.
func table() map[int]entry {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "state=").Output()
	if err != nil {
		return nil
	}
	all := map[int]entry{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		pid, pidErr := strconv.Atoi(f[0])
		parent, parentErr := strconv.Atoi(f[1])
		if pidErr == nil && parentErr == nil {
			all[pid] = entry{parent, f[2][0]}
		}
	}
	return all
}
