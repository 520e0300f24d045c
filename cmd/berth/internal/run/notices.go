package run

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

const (
	// narrow is the width below which the status line omits berth's name.
	narrow = 60
	// leastName is how much of a semaphore's name stays in the line.
	leastName = 8
)

// Notices writes to standard error: sentences, and on a terminal one line of
// status that is replaced in place.
type Notices struct {
	mu       sync.Mutex
	file     *os.File
	terminal bool
	status   bool // a status line is on the screen
}

// NewNotices returns the notices on file. Quiet ones have no status.
func NewNotices(file *os.File, quiet bool) *Notices {
	return &Notices{file: file, terminal: !quiet && term.IsTerminal(int(file.Fd()))}
}

// Printf writes one sentence on a line of its own.
func (n *Notices) Printf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
	n.write("berth: " + screen.Clean(fmt.Sprintf(format, args...)) + "\n")
}

// Status shows a line until the next Status, Printf or Erase: a semaphore's name, which is
// cut first if the line is too short, and a text. It shows nothing without a terminal, or
// while this process is in the background.
func (n *Notices) Status(name, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.terminal || !n.foreground() {
		return
	}
	n.status = true
	// One column stays free: a full last column wraps on some terminals.
	n.write("\r" + statusLine(screen.Clean(name), screen.Clean(text), screen.Width(n.file)-1) + "\x1b[K")
}

// statusLine fits a status into a number of columns. If they are few, the least important
// parts are omitted first.
func statusLine(name, text string, columns int) string {
	prefix := "berth: "
	if columns < narrow {
		prefix = ""
	}
	room := columns - screen.Columns(prefix+": "+text)
	return screen.Fit(prefix+screen.Fit(name, max(leastName, room))+": "+text, columns)
}

func (n *Notices) foreground() bool {
	pgrp, err := unix.IoctlGetInt(int(n.file.Fd()), unix.TIOCGPGRP)
	return err != nil || pgrp == unix.Getpgrp()
}

// Erase removes the status line.
func (n *Notices) Erase() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.erase()
}

func (n *Notices) erase() {
	if n.status {
		n.status = false
		n.write("\r\x1b[K")
	}
}

// write ignores errors: the command must run even if nobody reads the notices.
func (n *Notices) write(s string) { _, _ = n.file.WriteString(s) }
