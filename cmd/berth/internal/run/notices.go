package run

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

const (
	// narrow is the width below which the status line omits berth's name.
	narrow = 60
	// leastName is how much of a semaphore's name stays in the line.
	leastName = 8
	// mostPending is how many bytes are kept for a reader that does not read.
	mostPending = 64 << 10
	// mostHeld is how many warnings are held back.
	mostHeld = 16
)

// Notices writes to standard error: sentences, and on a terminal one line of
// status that is replaced in place.
//
// Its methods do not wait for the file: a pipe that nobody reads, or a terminal after Ctrl-S,
// must not keep berth from ending a command whose lease is lost. What is not written yet is
// kept for Flush, and what is too much is dropped.
type Notices struct {
	file     *os.File
	terminal bool
	rename   func(string) string // see Rename

	mu      sync.Mutex
	status  bool          // a status line is on the screen
	holding bool          // Warnf keeps its sentences in held
	waited  bool          // the request is in the queue, or was
	held    []warning     // at most mostHeld
	pending []byte        // what drain will write next
	idle    chan struct{} // closed when drain has written all; nil if it does not run
}

// warning is a sentence that is held back.
type warning struct {
	text    string
	waiting bool // it concerns only those who wait
}

// NewNotices returns the notices on file.
func NewNotices(file *os.File) *Notices {
	return &Notices{file: file, terminal: term.IsTerminal(int(file.Fd())), rename: func(text string) string { return text }}
}

// Rename sets what replaces words in all that is written from now on.
func (n *Notices) Rename(f func(text string) string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rename = f
}

// Printf writes one sentence on a line of its own.
func (n *Notices) Printf(format string, args ...any) {
	n.Println("berth: " + fmt.Sprintf(format, args...))
}

// Println writes a line as it is.
func (n *Notices) Println(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.println(text)
}

func (n *Notices) println(text string) {
	n.erase()
	n.write(screen.Clean(n.rename(text)) + "\n")
}

// Warnf is Printf for what Redis refuses beside a request. Between hold and release it is held
// back: if Redis then refuses the request too, that error is all there is to say.
func (n *Notices) Warnf(format string, args ...any) {
	n.warn(warning{text: "berth: " + fmt.Sprintf(format, args...)})
}

// SlowWaitf is Warnf for what makes only a wait longer: it is dropped where there is none.
func (n *Notices) SlowWaitf(format string, args ...any) {
	n.warn(warning{text: "berth: " + fmt.Sprintf(format, args...), waiting: true})
}

func (n *Notices) warn(w warning) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !n.holding:
		n.show(w)
	case len(n.held) < mostHeld:
		n.held = append(n.held, w)
	}
}

func (n *Notices) show(w warning) {
	if n.waited || !w.waiting {
		n.println(w.text)
	}
}

func (n *Notices) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holding = true
}

// release shows what was held back: Redis serves the request, which waits in the queue or not.
func (n *Notices) release(waits bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waited = n.waited || waits
	for _, w := range n.held {
		n.show(w)
	}
	n.holding, n.held = false, nil
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
	n.write("\r" + statusLine(screen.Clean(name), screen.Clean(n.rename(text)), screen.Width(n.file)-1) + "\x1b[K")
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

// write hands s to drain. n.mu is held.
func (n *Notices) write(s string) {
	if len(n.pending)+len(s) > mostPending {
		return
	}
	n.pending = append(n.pending, s...)
	if n.idle == nil {
		n.idle = make(chan struct{})
		go n.drain()
	}
}

// drain writes until nothing is pending. It ignores errors: the command must run even if
// nobody reads the notices.
func (n *Notices) drain() {
	for text := n.next(); len(text) > 0; text = n.next() {
		_, _ = n.file.Write(text)
	}
}

// next takes what is pending. If that is nothing, drain ends, and the next write starts another.
func (n *Notices) next() (text []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if text, n.pending = n.pending, nil; len(text) == 0 {
		close(n.idle)
		n.idle = nil
	}
	return text
}

// Flush waits until all has been written, but no longer than d.
func (n *Notices) Flush(d time.Duration) {
	n.mu.Lock()
	idle := n.idle
	n.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(d):
	}
}

// line is the status line that tells a user at a terminal why the command has not started
// yet. It is updated in place, and erased when the command starts.
type line struct {
	cfg     Config
	since   time.Time
	place   *berth.Place // nil while not in the queue
	heard   time.Time    // when it came
	why     string       // who paused or pinned it, and why; "" if that is not known
	told    bool         // the outage was written to a log
	refusal error        // why Redis refuses the request; nil: it does not, or no longer
}

// tellAfter is how long an outage lasts before it is written to a log.
const tellAfter = 30 * time.Second

// ticks keeps the time waited up to date, and finds out when an outage is to be told.
func (l *line) ticks() <-chan time.Time {
	switch {
	case l.cfg.Quiet:
		return nil
	case l.cfg.Notices.terminal:
		return time.Tick(time.Second)
	default: // to wake up often is what costs most where thousands wait
		return time.Tick(tellAfter / 3)
	}
}

// draw shows the line. Where there is no terminal, it writes an outage to the log, once.
func (l *line) draw() {
	if l.cfg.Quiet {
		return
	}
	now := time.Now()
	since, _ := l.cfg.Health.Outage()
	if away := now.Sub(since); !since.IsZero() && away >= tellAfter && !l.told && !l.cfg.Notices.terminal {
		l.told = true
		l.cfg.Notices.Printf("Redis has not answered for %s; still waiting", screen.Age(away))
	}
	if text := l.text(now); text != "" {
		l.cfg.Notices.Status(l.cfg.Name, text+", waited "+screen.Age(now.Sub(l.since)))
	}
}

// refused tells, once, why Redis refuses the request; who waits outlasts that.
func (l *line) refused(why error) {
	l.refusal = why
	if !l.cfg.Quiet {
		l.cfg.Notices.Printf("redis refuses, for now: %v; still waiting", why)
	}
}

// served tells that a refusal which was told is over, and lets out what was held back: the request is
// in the queue.
func (l *line) served() {
	if l.refusal != nil && !l.cfg.Quiet {
		l.cfg.Notices.Printf("redis no longer refuses; still waiting")
	}
	l.refusal = nil
	l.cfg.Notices.release(true)
}

// text returns why there is no permit yet. It is empty until Redis has answered.
func (l *line) text(now time.Time) string {
	since, why := l.cfg.Health.Outage()
	switch {
	case since.IsZero():
	case l.cfg.Patient:
		return "waiting for Redis for " + screen.Age(now.Sub(since))
	default:
		return fmt.Sprintf("Redis away for %s (%s)", screen.Age(now.Sub(since)), brief(why))
	}
	p := l.place
	if p == nil {
		return ""
	}
	where := "next in line"
	if p.Ahead > 0 {
		where = ordinal(p.Ahead+1) + " in line"
	}
	switch {
	case p.Paused:
		return l.operator("paused") + ", " + screen.InUse(&p.Status)
	case p.Pinned:
		return fmt.Sprintf("%s, %d in use, limit %s, %s%s", where, p.InUse, words.Limit(p.Limit), l.operator("pinned"), l.spent(now))
	}
	return where + ", " + screen.InUse(&p.Status) + l.spent(now)
}

// see takes a new place in the queue. It reports whether an operator has set what was not set
// before, so that who it was is to be found out.
func (l *line) see(place berth.Place) (news bool) {
	before := l.place
	l.place, l.heard = &place, time.Now()
	if before != nil && before.Paused == place.Paused && before.Pinned == place.Pinned && before.Limit == place.Limit {
		return false
	}
	l.why = ""
	return place.Paused || place.Pinned
}

// spent tells, behind a comma, of the rate that keeps the request out, and for how long it does at
// the least.
func (l *line) spent(now time.Time) string {
	text := screen.Spent(&l.place.Status)
	if left := l.place.RetryAfter - now.Sub(l.heard); text != "" && left > 0 {
		text += ", no room for " + screen.Age(left)
	}
	return text
}

// operator returns what an operator has done, with who it was if that is known.
func (l *line) operator(done string) string { return cmp.Or(l.why, done+" by an operator") }

// brief returns the end of a network error, which says what is wrong; the addresses before
// it are long.
func brief(err error) string {
	text := err.Error()
	return strings.TrimPrefix(text[strings.LastIndex(text, ": ")+1:], " ")
}

// ordinal returns 1st, 2nd, 3rd, 4th …
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
