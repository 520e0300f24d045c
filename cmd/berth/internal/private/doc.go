// Package private keeps to one user of one machine what is meant for it: the directory of a
// socket, a lock, a file with secrets, an address that only this machine reaches.
package private
