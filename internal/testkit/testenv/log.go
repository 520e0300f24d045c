package testenv

import (
	"bytes"
	"strings"
	"sync"
	"testing/synctest"
)

// Log is a log that may be read while it is written, in a bubble.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns what was logged by the time that everything else in the bubble waits.
func (l *Log) String() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Count returns how often that says what.
func (l *Log) Count(what string) int { return strings.Count(l.String(), what) }
