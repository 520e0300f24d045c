package agent

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
)

// client is what a client says of itself, and what the agent finds out about it.
type client struct {
	label string
	pid   int    // 0: it is not known
	more  string // what else operators see, as ;key=value
}

// introduce finds out what the client has not said: its label is the program's name, and its process
// the one at the other end.
func (c *client) introduce(p peer) {
	c.pid = cmp.Or(c.pid, p.pid())
	c.label = cmp.Or(c.label, p.program(c.pid), "agent")
	c.more = fmt.Sprintf(";agent=%d%s", os.Getpid(), p.user())
}

// String names it in a log.
func (c *client) String() string {
	if c.pid == 0 {
		return strconv.Quote(c.label)
	}
	return fmt.Sprintf("%q (pid %d)", c.label, c.pid)
}
