package measure

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Work is what a server says about its work so far.
type Work struct {
	At       time.Time
	CPU      float64          // seconds of its main thread, user and system
	Memory   float64          // bytes
	Commands map[string]Calls // by lower-case name, including those called by scripts
}

// Calls is the work of one command.
type Calls struct {
	Calls float64
	Usec  float64
}

// Ask asks the server.
func Ask(ctx context.Context, rdb redis.Cmdable) (Work, error) {
	text, err := rdb.Info(ctx, "everything").Result()
	if err != nil {
		return Work{}, fmt.Errorf("INFO: %w", err)
	}
	return parse(text), nil
}

func parse(text string) Work {
	u := Work{At: time.Now(), Commands: map[string]Calls{}}
	f := fields(text)
	u.CPU = number(f["used_cpu_user_main_thread"]) + number(f["used_cpu_sys_main_thread"])
	if u.CPU == 0 { // before Redis 6.2
		u.CPU = number(f["used_cpu_user"]) + number(f["used_cpu_sys"])
	}
	u.Memory = number(f["used_memory"])
	for name, value := range f {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		stats := map[string]string{}
		for part := range strings.SplitSeq(value, ",") {
			k, v, _ := strings.Cut(part, "=")
			stats[k] = v
		}
		u.Commands[command] = Calls{number(stats["calls"]), number(stats["usec"])}
	}
	return u
}

func fields(text string) map[string]string {
	f := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f[k] = v
		}
	}
	return f
}

func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

// Since returns the work between before and u, without that of Ask itself.
func (u Work) Since(before Work) Work {
	d := Work{At: u.At, CPU: u.CPU - before.CPU, Memory: u.Memory - before.Memory, Commands: map[string]Calls{}}
	for name, c := range u.Commands {
		was := before.Commands[name]
		if c.Calls != was.Calls && name != "info" && name != "ping" {
			d.Commands[name] = Calls{c.Calls - was.Calls, c.Usec - was.Usec}
		}
	}
	return d
}

// Sent returns how many commands clients sent, and how many microseconds the server spent
// on them and what their scripts call. names lists the commands that clients send. If it is
// empty, all commands count except EXEC, whose time is that of commands that are counted
// themselves.
func (u Work) Sent(names []string) Calls {
	var sum Calls
	if len(names) > 0 {
		for _, name := range names {
			sum.Calls += u.Commands[name].Calls
			sum.Usec += u.Commands[name].Usec
		}
		return sum
	}
	for name, c := range u.Commands {
		sum.Calls += c.Calls
		if name != "exec" {
			sum.Usec += c.Usec
		}
	}
	return sum
}

// Version returns the server's version, or "unknown" if it does not say.
func Version(ctx context.Context, rdb redis.Cmdable) string {
	text, err := rdb.Info(ctx, "server").Result()
	if v := fields(text)["redis_version"]; err == nil && v != "" {
		return v
	}
	return "unknown"
}
