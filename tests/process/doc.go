// Package process has no code. Its tests use the library in processes of their own,
// and kill or stop them.
package process
