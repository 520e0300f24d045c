package berth

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// Handle names a lease that was detached: "berth1/PREFIX/NAME/ID", printable ASCII without spaces.
// The ID is a secret, enough to take the lease: a Handle that is printed or logged leaves it out,
// string(h) and JSON have it.
type Handle string

const handleMark = "berth1"

// detached is what a Handle says. The id is 128 random bits. Everything else about the lease is on
// the server.
type detached struct{ prefix, name, id string }

// handleID is the id of a lease that was detached.
var handleID = regexp.MustCompile(`^[a-z2-7]{8}\.[a-z2-7]{18}$`)

func (d detached) handle() Handle {
	return Handle(strings.Join([]string{handleMark, url.PathEscape(d.prefix), url.PathEscape(d.name), d.id}, "/"))
}

// String returns the Handle without its secret.
func (h Handle) String() string {
	d, err := h.parse()
	if err != nil {
		return "not a lease handle"
	}
	d.id = "***"
	return string(d.handle())
}

// GoString is for fmt, and leaves the secret out.
func (h Handle) GoString() string { return fmt.Sprintf("berth.Handle(%q)", h.String()) }

// LogValue is for log/slog, and leaves the secret out.
func (h Handle) LogValue() slog.Value { return slog.StringValue(h.String()) }

// parse checks every part of a Handle, which may have been stored in a file or typed.
func (h Handle) parse() (detached, error) {
	part := strings.Split(strings.TrimSpace(string(h)), "/")
	if part[0] != handleMark {
		return detached{}, fmt.Errorf("%w: it does not begin with %q", ErrHandle, handleMark+"/")
	}
	if len(part) != 4 || !handleID.MatchString(part[3]) {
		return detached{}, fmt.Errorf("%w: it is truncated or altered", ErrHandle)
	}
	prefix, err1 := url.PathUnescape(part[1])
	name, err2 := url.PathUnescape(part[2])
	if err1 != nil || err2 != nil || rules.Name(name, MaxName) != "" {
		return detached{}, fmt.Errorf("%w: it is altered", ErrHandle)
	}
	return detached{prefix, name, part[3]}, nil
}

// named returns what h says, if it is of this client's prefix.
func (c *Client) named(h Handle) (detached, error) {
	d, err := h.parse()
	if err == nil && d.prefix != c.prefix {
		return detached{}, fmt.Errorf("%w: it was made with prefix %q, and this client has %q", ErrHandle, d.prefix, c.prefix)
	}
	return d, err
}

// RenewHandle renews a detached lease without adopting it, and returns how long it then lasts: its
// TTL, or less before its MaxHold. It returns within 5 seconds, or when ctx ends. A [*LostError]
// means that there is nothing to renew; [ErrUnreachable] or ctx's error, that it may have been
// renewed; any other error, that it is unchanged.
func (c *Client) RenewHandle(ctx context.Context, h Handle) (time.Duration, error) {
	r, err := c.handled(ctx, h, protocol.Op{Verb: protocol.Renew})
	return r.Remaining, err
}

// ReleaseHandle releases a detached lease without adopting it, with the bounds and errors of
// [Client.RenewHandle]. It can be repeated: berth does not retry in the background, and a lease
// that is not released expires.
//
// Costs are settled in the same step, as by [Lease.Settle]; one of a unit of which nothing was
// charged has no effect. If one is not valid, the error is an [*InvalidError], and nothing is sent.
func (c *Client) ReleaseHandle(ctx context.Context, h Handle, costs ...CostOption) error {
	all := make([]protocol.Cost, len(costs))
	for i, cost := range costs {
		all[i] = cost.cost
	}
	settle, err := protocol.JoinCosts(all...)
	if err != nil {
		return &InvalidError{"Cost", err.Error()}
	}
	_, err = c.handled(ctx, h, protocol.Op{Verb: protocol.Release, Flag: true, Costs: settle})
	return err
}

// handled does one operation on a detached lease.
func (c *Client) handled(ctx context.Context, h Handle, op protocol.Op) (protocol.Result, error) {
	if err := cmp.Or(c.made(), invalid("context", rules.Context(ctx))); err != nil {
		return protocol.Result{}, err
	}
	d, err := c.named(h)
	if err != nil {
		return protocol.Result{}, err
	}
	op.ID = d.id
	result, err := c.session.Semaphore(d.name).Do(ctx, op)
	switch {
	case err != nil:
		return result, public(d.name, err)
	case result.Code == protocol.Gone, result.Code == protocol.Evicting:
		return result, publicLost(claim.LostBy(d.name, d.id, &result))
	}
	return result, nil
}
