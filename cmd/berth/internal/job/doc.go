// Package job runs one command as env and flock do: in the process group of
// whoever started it, so that the terminal's keys, the shell's job control and
// a signal to the whole group reach the command as if berth were not there. What
// berth itself passes on, or ends, reaches the command's children too.
package job
