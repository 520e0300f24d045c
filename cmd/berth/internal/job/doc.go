// Package job runs one command the way a shell runs a job: in a process group
// of its own that gets signals as a whole, with the terminal while it needs
// it, stopped and continued together with whoever started it.
package job
