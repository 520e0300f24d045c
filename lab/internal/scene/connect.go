package scene

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/berth-go/berth/internal/measure"
)

// ioTimeout bounds the wait for a connection and for each reply. It is to find a Redis that
// hangs, not one on a slow machine.
const ioTimeout = 10 * time.Second

// Connector returns what makes clients of the Redis at a URL of go-redis. One that begins with
// redis+cluster:// or redis+sentinel:// is read by its ParseClusterURL or ParseFailoverURL. The
// clients repeat nothing, for a repetition would mend what is to be watched.
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
