package job

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent asks for a TERM at the death of the thread that starts the
// command. The caller must be on a thread that lives as long as the process.
func endWithParent(sys *syscall.SysProcAttr) { sys.Pdeathsig = syscall.SIGTERM }

// adoptOrphans makes this process the parent of its orphaned descendants, so that they can
// still be found and signalled.
func adoptOrphans() {
	// Older kernels than 3.4 do not support it; then orphans are not found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// table returns all processes. It is empty if /proc is missing or belongs to another PID
// namespace, whose numbers mean nothing here.
func table() map[int]entry {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	dirs, _ := os.ReadDir("/proc")
	all := map[int]entry{}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + dir.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT …, where the name may be anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(string(fields[1])); err == nil {
			all[pid] = entry{parent, fields[0][0]}
		}
	}
	return all
}
