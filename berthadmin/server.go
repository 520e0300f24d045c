package berthadmin

import (
	"context"
	"strings"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// Server describes a Redis server; fields that it does not report are "".
type Server struct {
	Version string `json:"version"` // as in "redis 7.2.4" or "valkey 8.0.1"
	Policy  string `json:"policy"`  // what it does when its memory is full (maxmemory-policy)
	Role    string `json:"role"`    // "master" or "slave"
}

// Ping makes one round trip, which costs the server next to nothing, and reports
// whether Redis answers.
func (in *Inspector) Ping(ctx context.Context) error {
	if err := invalid("context", rules.Context(ctx)); err != nil {
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
	if err := invalid("context", rules.Context(ctx)); err != nil {
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
	s := Server{Policy: fields["maxmemory_policy"], Role: fields["role"]}
	switch {
	case fields["valkey_version"] != "":
		s.Version = "valkey " + fields["valkey_version"]
	case fields["redis_version"] != "":
		s.Version = "redis " + fields["redis_version"]
	}
	return s, nil
}
