package testenv

import (
	"bytes"
	"strings"
	"sync"
	"testing/synctest"
)

// Buffer is text that may be read while it is written.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Log is a log in a bubble.
type Log struct{ Buffer }

// String returns what was logged by the time that everything else in the bubble waits.
func (l *Log) String() string {
	synctest.Wait()
	return l.Buffer.String()
}

// Count returns how often that says what.
func (l *Log) Count(what string) int { return strings.Count(l.String(), what) }
