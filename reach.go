package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-go/berth/internal/reach"
)

// Reach reports whether Redis can be reached. It asks on a connection of its own,
// so a busy pool of connections has no say, and takes any answer for a yes, a
// refusal too; of a Redis Cluster, the answer of any node. It returns nil then,
// ErrUnreachable when there is no connection or no answer, and another error when
// this process cannot find out: ctx has ended, or there is no CPU, descriptor or
// port left. It takes 3 s for a server that is silent, and 10 s at most, 13 with a
// Cluster.
func (c *Client) Reach(ctx context.Context) error {
	if err := validContext(ctx); err != nil {
		return err
	}
	err := c.session.Store().Reach(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, reach.ErrAway):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("berth: whether redis can be reached is not known: %w", err)
}
