package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-go/berth/internal/reach"
	"github.com/berth-go/berth/internal/rules"
)

// Reach reports whether Redis can be reached. It makes a connection of its own, so
// that an exhausted connection pool does not matter. It returns nil if Redis answers
// anything, even with a refusal, there or to another call of this client; in a Redis
// Cluster, if any node does. It returns ErrUnreachable if there is no connection or no
// answer, and another error if this process cannot find out: ctx has ended, or no CPU,
// descriptor or port is left. It takes 3 seconds if the server is silent, and at most 10,
// or 13 with a Cluster.
func (c *Client) Reach(ctx context.Context) error {
	if err := invalid("context", rules.Context(ctx)); err != nil {
		return err
	}
	err := c.session.Reach(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, reach.ErrAway):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("berth: whether redis can be reached is not known: %w", err)
}
