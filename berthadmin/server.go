package berthadmin

import (
	"context"
	"strconv"
	"strings"

	"github.com/berth-go/berth/internal/protocol"
)

// Server describes a Redis server; fields that it does not report are "", and 0.
type Server struct {
	Version string `json:"version"` // as in "redis 7.2.4" or "valkey 8.0.1"
	Policy  string `json:"policy"`  // what it does when its memory is full (maxmemory-policy)
	Role    string `json:"role"`    // "master" or "slave"

	Refusals Refusals `json:"refusals"`
}

// Refusals counts the errors by which a server has refused to write since it started, for
// whatever client. While it goes on, berth grants little or nothing.
type Refusals struct {
	OOM        int64 `json:"oom"`        // its memory is full, and its policy evicts nothing, or nothing more
	ReadOnly   int64 `json:"readonly"`   // it is a replica
	Misconf    int64 `json:"misconf"`    // it cannot write to its disk
	NoReplicas int64 `json:"noreplicas"` // it has fewer than min-replicas-to-write
}

// Ping makes one round trip, which costs the server next to nothing, and reports
// whether Redis answers.
func (in *Inspector) Ping(ctx context.Context) error {
	if err := in.ready(ctx); err != nil {
		return err
	}
	if _, err := protocol.Bounded(ctx, in.patience(), func(ctx context.Context) (string, error) { return in.rdb.Ping(ctx).Result() }); err != nil {
		return asked(ctx, err)
	}
	return nil
}

// Server asks the server by INFO; in a Redis Cluster, one of its nodes. berth.ErrRefused
// means that the user may not ask.
func (in *Inspector) Server(ctx context.Context) (Server, error) {
	if err := in.ready(ctx); err != nil {
		return Server{}, err
	}
	text, err := protocol.Bounded(ctx, mostCall, func(ctx context.Context) (string, error) { return in.rdb.Info(ctx).Result() })
	if err != nil {
		return Server{}, asked(ctx, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = v
		}
	}
	count := func(code string) int64 {
		n, _ := strconv.ParseInt(strings.TrimPrefix(fields["errorstat_"+code], "count="), 10, 64)
		return n
	}
	s := Server{
		Policy: fields["maxmemory_policy"], Role: fields["role"],
		Refusals: Refusals{OOM: count("OOM"), ReadOnly: count("READONLY"), Misconf: count("MISCONF"), NoReplicas: count("NOREPLICAS")},
	}
	switch {
	case fields["valkey_version"] != "":
		s.Version = "valkey " + fields["valkey_version"]
	case fields["redis_version"] != "":
		s.Version = "redis " + fields["redis_version"]
	}
	return s, nil
}
