// Package promise has no code. Its tests hold the library to what docs/guarantees.md
// promises and to what the doc comments say, with the same bodies on the embedded
// store and on a real server.
package promise
