package berth

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// handle names a detached lease that can be adopted. Its text is
// "berth1/PREFIX/NAME/ID", each part escaped as in a URL. The id is 128 random bits
// and the only secret: it is enough to take the lease. Everything else about the
// lease is on the server.
type handle struct{ prefix, name, id string }

const handleMark = "berth1"

// handleID is the id of a lease that was detached.
var handleID = regexp.MustCompile(`^[a-z2-7]{8}\.[a-z2-7]{18}$`)

// String returns the handle's text: printable ASCII, without spaces.
func (h handle) String() string {
	return strings.Join([]string{handleMark, url.PathEscape(h.prefix), url.PathEscape(h.name), h.id}, "/")
}

// parseHandle parses and checks every part of a handle's text, which may have been
// stored in a file or typed.
func parseHandle(text, prefix string) (handle, error) {
	part := strings.Split(strings.TrimSpace(text), "/")
	if part[0] != handleMark {
		return handle{}, fmt.Errorf("%w: it does not begin with %q", ErrHandle, handleMark+"/")
	}
	if len(part) != 4 || !handleID.MatchString(part[3]) {
		return handle{}, fmt.Errorf("%w: it is truncated or altered", ErrHandle)
	}
	var h handle
	var err1, err2 error
	h.prefix, err1 = url.PathUnescape(part[1])
	h.name, err2 = url.PathUnescape(part[2])
	h.id = part[3]
	if err1 != nil || err2 != nil || rules.Name(h.name, MaxName) != "" {
		return handle{}, fmt.Errorf("%w: it is altered", ErrHandle)
	}
	if h.prefix != prefix {
		return handle{}, fmt.Errorf("%w: it was made with prefix %q, and this client has %q", ErrHandle, h.prefix, prefix)
	}
	return h, nil
}

// RenewHandle renews a detached lease without adopting it, and returns how long the
// lease then lasts: its TTL, or less if its MaxHold ends before. It returns within 5
// seconds, or when ctx ends. A *LostError means that there is nothing to renew;
// ErrUnreachable or ctx's error, that the lease may have been renewed; ErrHandle,
// ErrRefused, ErrCorrupt and ErrClosed, that it is unchanged.
func (c *Client) RenewHandle(ctx context.Context, handle string) (time.Duration, error) {
	r, err := c.handled(ctx, handle, protocol.Op{Verb: protocol.Renew})
	return r.Remaining, err
}

// ReleaseHandle releases a detached lease without adopting it. It returns within 5
// seconds, or when ctx ends. A *LostError means that there was nothing to release;
// ErrUnreachable or ctx's error, that the lease may have been released, and that the
// call can be repeated; ErrHandle, ErrRefused, ErrCorrupt and ErrClosed, that the
// lease is unchanged. berth does not retry in the background: a lease that is not
// released expires by itself.
func (c *Client) ReleaseHandle(ctx context.Context, handle string) error {
	_, err := c.handled(ctx, handle, protocol.Op{Verb: protocol.Release, Flag: true})
	return err
}

// handled does one operation on a detached lease.
func (c *Client) handled(ctx context.Context, text string, op protocol.Op) (protocol.Result, error) {
	if err := cmp.Or(c.made(), invalid("context", rules.Context(ctx))); err != nil {
		return protocol.Result{}, err
	}
	h, err := parseHandle(text, c.prefix)
	if err != nil {
		return protocol.Result{}, err
	}
	op.ID = h.id
	result, again, err := c.session.Do(ctx, h.name, op)
	switch {
	case err != nil:
		return result, failed(ctx, h.name, err)
	case result.Code == protocol.Gone && result.Reason == protocol.WasReleased && op.Verb == protocol.Release && again:
		return result, nil // by the copy whose outcome was not known
	case result.Code == protocol.Gone, result.Code == protocol.Evicting:
		return result, publicLost(claim.LostBy(h.name, h.id, &result))
	}
	return result, nil
}
