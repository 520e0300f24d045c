package scene

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// usage is what a real server says that it has done so far, for everybody.
type usage struct {
	calls int64   // commands, those that scripts call included
	cpu   float64 // seconds of its process
	known bool
}

// usage asks the server. An embedded store keeps no such books, and a cluster
// has one for each node.
func (s *stage) usage(ctx context.Context) usage {
	if _, cluster := s.control.(*redis.ClusterClient); cluster || s.env.Embedded {
		return usage{}
	}
	calls, err1 := s.control.Info(ctx, "commandstats").Result()
	cpu, err2 := s.control.Info(ctx, "cpu").Result()
	if err1 != nil || err2 != nil {
		return usage{}
	}
	return usage{calls: parseCalls(calls), cpu: parseCPU(cpu), known: true}
}

// parseCalls sums up lines such as
// cmdstat_get:calls=21,usec=175,usec_per_call=8.33,rejected_calls=0. Looking at
// the books is no part of the use.
func parseCalls(info string) (n int64) {
	for line := range strings.Lines(info) {
		name, fields, _ := strings.Cut(line, ":calls=")
		if !strings.HasPrefix(name, "cmdstat_") || name == "cmdstat_info" || name == "cmdstat_ping" {
			continue
		}
		calls, _, _ := strings.Cut(fields, ",")
		value, _ := strconv.ParseInt(calls, 10, 64)
		n += value
	}
	return n
}

// parseCPU adds up the server's own time, in user and in system mode.
func parseCPU(info string) (seconds float64) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			s, _ := strconv.ParseFloat(value, 64)
			seconds += s
		}
	}
	return seconds
}
