package berth

import (
	"context"
	"strings"

	"github.com/berth-go/berth/internal/session"
)

// Server is what a Redis server says of itself; "" for what it does not.
type Server struct {
	Version string `json:"version"` // as in "redis 7.2.4" or "valkey 8.0.1"
	Policy  string `json:"policy"`  // what it does when its memory is full (maxmemory-policy)
	Role    string `json:"role"`    // "master" or "slave"
}

// Ping is a round trip that costs the server nothing. It tells whether Redis answers.
func (in *Inspector) Ping(ctx context.Context) error {
	if err := validContext(ctx); err != nil {
		return err
	}
	if _, err := session.Bounded(ctx, mostCall, func(ctx context.Context) (string, error) { return in.rdb.Ping(ctx).Result() }); err != nil {
		return asked(ctx, err)
	}
	return nil
}

// Server asks the server by INFO; in a Cluster, one of its nodes. With ErrRefused the
// user may not ask.
func (in *Inspector) Server(ctx context.Context) (Server, error) {
	if err := validContext(ctx); err != nil {
		return Server{}, err
	}
	text, err := session.Bounded(ctx, mostCall, func(ctx context.Context) (string, error) { return in.rdb.Info(ctx).Result() })
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
