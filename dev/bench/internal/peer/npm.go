package peer

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/berth-go/berth/internal/child"
)

// NPM is npm's redis-semaphore.
func NPM() *Peer {
	return &Peer{
		Key: "npm", Title: "npm redis-semaphore", Kind: Semaphore, Queues: true, Poll: npmPoll, Sent: append([]string{"zrem"}, scripts...),
		About: "on ioredis, all its clients in one process of node, which sends what gathers in a turn of its loop together; " +
			"default options: time-out 10 s, refreshed, asks again every 10 ms",
		Open: openNode,
	}
}

const npmPoll = 10 * time.Millisecond

// npmDir returns the directory of the driver and, once they are installed, its packages.
func npmDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "npm")
}

// npmMissing returns why a package of npm cannot take part, or "" if it can.
func npmMissing(name string) string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not on PATH"
	}
	if _, err := os.Stat(filepath.Join(npmDir(), "node_modules", name)); err != nil {
		return "it is not installed: make bench does so"
	}
	return ""
}

// node is the process that runs npm/driver.js, which drives a contestant of npm: Bottleneck for a
// shape with a rate, redis-semaphore for the others.
type node struct {
	*child.Process

	shape Shape
}

func openNode(ctx context.Context, url, prefix string, s Shape) (Driver, error) {
	c, err := child.Start(exec.Command("node", filepath.Join(npmDir(), "driver.js")))
	if err != nil {
		return nil, err
	}
	if err := c.Ask(ctx, map[string]any{"op": "connect", "url": url, "prefix": prefix, "shape": s}, &struct{}{}); err != nil {
		c.Kill()
		return nil, err
	}
	return node{c, s}, nil
}

// Close implements Driver.
func (n node) Close() { n.Kill() }

// Spin implements Driver.
func (n node) Spin(ctx context.Context, l Load) (*Outcome, error) {
	var answer struct {
		Outcome
		Grants []time.Duration
	}
	err := n.Ask(ctx, map[string]any{"op": "spin", "load": l}, &answer)
	for _, at := range answer.Grants {
		n.shape.Granted(Grant{at, at})
	}
	return &answer.Outcome, err
}

// Pass implements Driver.
func (n node) Pass(ctx context.Context, count int, pause, most time.Duration) ([]time.Duration, error) {
	var answer struct{ Took []time.Duration }
	err := n.Ask(ctx, map[string]any{"op": "pass", "n": count, "pause": pause, "most": most, "poll": npmPoll}, &answer)
	return answer.Took, err
}
