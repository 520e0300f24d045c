// Package job runs one command as env and flock do: in berth's own process group, so that
// the terminal's keys, the shell's job control and a signal to the whole group reach the
// command as if berth were not there. Signals that berth itself passes on also reach the
// command's children.
package job
