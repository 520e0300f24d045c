package stage

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/berth-go/berth/dev/internal/measure"
)

// ioTimeout bounds the wait for a connection and for each reply. It is long, so that it finds
// a Redis that hangs and not a slow machine.
const ioTimeout = 10 * time.Second

// Connector returns a function that makes clients for a URL in go-redis' form; URLs that begin
// with redis+cluster:// or redis+sentinel:// are read by its ParseClusterURL or
// ParseFailoverURL. The clients do not retry, which would hide the faults under study.
func Connector(url string) (func() redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	scheme, kind, _ := strings.Cut(scheme, "+")
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch kind {
	case "cluster":
		o, err := redis.ParseClusterURL(scheme + "://" + rest)
		if err != nil {
			return nil, measure.ErrURL
		}
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.MaintNotificationsConfig = -1, 1, true, quiet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = ioTimeout, ioTimeout, ioTimeout
		return func() redis.UniversalClient { own := *o; return redis.NewClusterClient(&own) }, nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(scheme + "://" + rest)
		if err != nil {
			return nil, measure.ErrURL
		}
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = ioTimeout, ioTimeout, ioTimeout
		return func() redis.UniversalClient { own := *o; return redis.NewFailoverClient(&own) }, nil
	default:
		o, err := measure.ParseURL(url)
		if err != nil {
			return nil, err
		}
		o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.MaintNotificationsConfig = -1, 1, true, quiet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = ioTimeout, ioTimeout, ioTimeout
		return func() redis.UniversalClient { own := *o; return redis.NewClient(&own) }, nil
	}
}
