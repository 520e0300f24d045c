package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/berth-go/berth/dev/bench/internal/result"
)

// describe adds the machine and the versions of software to the report.
func (o *options) describe(ctx context.Context, rep *result.Report, redis string) {
	rep.Configure("goos", runtime.GOOS)
	rep.Configure("goarch", runtime.GOARCH)
	rep.Configure("cpu", firstField("/proc/cpuinfo", "model name"))
	rep.Configure("cpus", fmt.Sprintf("%d, for clients and server together", runtime.NumCPU()))
	where := "a Redis of the user's"
	if o.url == "" {
		where = "of its own, without persistence, TCP on loopback"
	}
	rep.Configure("server", where)
	rep.Configure("redis-server", redis)
	rep.Configure("go", strings.TrimPrefix(runtime.Version(), "go"))
	wanted := map[string]string{
		"github.com/redis/go-redis/v9": "go-redis", "github.com/bsm/redislock": "redislock",
		"github.com/go-redsync/redsync/v4": "redsync", "github.com/redis/rueidis": "rueidis",
		"github.com/go-redis/redis_rate/v10": "redis_rate", "github.com/ulule/limiter/v3": "limiter",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if name := wanted[m.Path]; name != "" {
				rep.Configure(name, strings.TrimPrefix(m.Version, "v"))
			}
		}
	}
	if node, err := exec.CommandContext(ctx, "node", "--version").Output(); err == nil {
		rep.Configure("node", strings.TrimPrefix(strings.TrimSpace(string(node)), "v"))
	}
}

// firstField returns the value of the first line "name: value".
func firstField(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// revision returns the commit of a working copy of berth, which `go run` does not put
// into the program, or "" elsewhere.
func revision(ctx context.Context) string {
	if _, err := os.Stat("dev/bench/expectations.json"); err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
