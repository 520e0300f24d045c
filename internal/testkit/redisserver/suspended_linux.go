package redisserver

import (
	"bytes"
	"fmt"
	"os"
)

// suspended tells whether SIGSTOP has taken effect: the field after the name
// in /proc/PID/stat is the state.
func suspended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndex(stat, []byte(") "))
	return err == nil && i >= 0 && i+2 < len(stat) && stat[i+2] == 'T'
}
