package peer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/child"
)

// NPMKey is the key of npm's redis-semaphore.
const NPMKey = "npm"

// NodePackages are the versions that package.json pins.
var NodePackages = map[string]string{"ioredis": "6.0.0", "redis-semaphore": "5.8.0"}

//go:embed npm
var npmFiles embed.FS

// NPM is npm's redis-semaphore, driven by a small program of ours in one
// process of node.
func NPM() *Peer {
	return &Peer{
		Key: NPMKey, Title: "npm redis-semaphore", Kind: Semaphore, Queues: true, Poll: 10 * time.Millisecond, Sent: append([]string{"zrem"}, scripts...),
		About: "on ioredis, all its clients in one process of node, which sends what gathers in a turn of its loop together; " +
			"default options: time-out 10 s, refreshed, asks again every 10 ms",
		Open: openNode,
	}
}

// nodeDir is where the packages are installed: not in this repository.
func nodeDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "berth-bench", "redis-semaphore-"+NodePackages["redis-semaphore"]+"-ioredis-"+NodePackages["ioredis"]), nil
}

// NodeMissing returns why npm's redis-semaphore cannot take part, "" if it can.
func NodeMissing() string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not on PATH"
	}
	dir, err := nodeDir()
	if err != nil {
		return err.Error()
	}
	for name := range NodePackages {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", name, "package.json")); err != nil {
			return name + " is not installed: run once with --npm, which installs it under " + filepath.Dir(dir)
		}
	}
	return ""
}

// InstallNode installs the packages where NodeMissing looks for them.
func InstallNode(ctx context.Context) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not on PATH")
	}
	dir, err := nodeDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeNode(dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %s", err, strings.TrimSpace(string(out[:min(len(out), 400)])))
	}
	return nil
}

// writeNode writes our files beside the packages.
func writeNode(dir string) error {
	for _, name := range []string{"package.json", "driver.js"} {
		text, err := npmFiles.ReadFile("npm/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// NodeVersion returns the version of node, "" if there is none.
func NodeVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
}

// node is the process in which npm's redis-semaphore runs.
type node struct {
	child *child.Process
	poll  time.Duration
}

func openNode(ctx context.Context, url, prefix string, s Shape) (Driver, error) {
	dir, err := nodeDir()
	if err != nil {
		return nil, err
	}
	if err := writeNode(dir); err != nil {
		return nil, err
	}
	c, err := child.Start(exec.Command("node", filepath.Join(dir, "driver.js")))
	if err != nil {
		return nil, err
	}
	n := &node{child: c, poll: NPM().Poll}
	if err := c.Ask(ctx, map[string]any{"op": "connect", "url": url, "prefix": prefix, "shape": s}, &struct{}{}); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close implements Driver.
func (n *node) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = n.child.Ask(ctx, map[string]any{"op": "close"}, &struct{}{}) // gone already, or going
	n.child.Kill()
}
