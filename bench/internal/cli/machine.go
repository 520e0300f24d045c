package cli

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/bench/internal/result"
)

// machine describes this one, as far as it tells.
func machine(pinned string) result.Machine {
	return result.Machine{
		CPU: firstField("/proc/cpuinfo", "model name"), CPUs: runtime.NumCPU(), Memory: firstField("/proc/meminfo", "MemTotal"),
		OS: strings.TrimSpace(runtime.GOOS + "/" + runtime.GOARCH + " " + kernel()), Pinned: pinned,
	}
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(text))
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

// revision returns the commit in a working copy of berth, which `go run` does
// not put into the program; "" anywhere else.
func revision(ctx context.Context) string {
	if _, err := os.Stat("bench/expectations.json"); err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// versions returns those of everything that takes part.
func versions(ctx context.Context, redisVersion string) map[string]string {
	v := map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go"), "redis-server": redisVersion}
	wanted := map[string]string{
		"github.com/redis/go-redis/v9": "go-redis", "github.com/bsm/redislock": "redislock",
		"github.com/go-redsync/redsync/v4": "redsync", "github.com/redis/rueidis": "rueidis",
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if name := wanted[m.Path]; name != "" {
				v[name] = strings.TrimPrefix(m.Version, "v")
			}
		}
	}
	if revision := revision(ctx); revision != "" {
		v["berth"] = revision
	}
	if node := peer.NodeVersion(ctx); node != "" {
		v["node"] = node
		for name, version := range peer.NodePackages {
			v["npm "+name] = version
		}
	}
	return v
}
