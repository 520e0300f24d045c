package berthhttp

import (
	"errors"
	"net/http"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// Transport is an http.RoundTripper that limits how many requests run at once, over
// all processes that use the same name and key. It is safe for concurrent use.
type Transport struct {
	limiter *limiter
	base    http.RoundTripper
}

// NewTransport returns a Transport that lets limit requests run at once for each key,
// by default each host. Programs that use the same name share the limit. And adds more limits,
// such as one for all tenants besides those for each. The only error is a *berth.InvalidError.
func NewTransport(client *berth.Client, name string, limit int, opts ...Option) (*Transport, error) {
	cfg, err := newConfig(gate.Rule[*http.Request]{Name: name, Limit: limit, Key: ByHost}, gate.Config[*http.Request]{
		MaxWait: -1, AnswerWithin: DefaultTransportAnswerWithin, MaxHold: DefaultTransportMaxHold,
	}, opts)
	if err != nil {
		return nil, err
	}
	if err := cfg.onlyTransport(); err != nil {
		return nil, err
	}
	l, err := newLimiter(client, cfg)
	if err != nil {
		return nil, err
	}
	base := cfg.base
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport{limiter: l, base: base}, nil
}

// RoundTrip waits for a permit until the request's context ends, and sends the request.
// The permit is given back when the response body is closed or has been read to its
// end, when the request fails, or when its context ends, whichever comes first; after a
// switch of protocols, when the connection is closed. The end of the body is too early where the
// caller may settle what the request has cost: if it has said a cost, or a limit has a rate of a unit
// with a name, the permit is kept until the body is closed.
//
// The response's Request has a context that carries the lease, for berth.FromContext and [Settle].
//
// If the lease is lost meanwhile, the request is cancelled: RoundTrip, or reading the
// body, fails with berth.ErrLost. What the base has read ahead of the body can still be
// read. If a body is neither read nor closed, its lease is lost at MaxHold, and a warning
// is logged.
//
// A request that gets no permit is not sent; the error is a *RefusedError.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t == nil || t.limiter == nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, &berth.InvalidError{What: "transport", Reason: "it was not made by NewTransport, or that failed: look at its error"}
	}
	if req.URL == nil || req.Header == nil {
		return t.base.RoundTrip(req) // which knows what to say
	}
	p, why := t.limiter.take(req)
	if why != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, why
	}
	return t.send(p, req)
}

// CloseIdleConnections closes the idle connections of the base transport, for
// http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	if t == nil {
		return
	}
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

var errNoResponse = errors.New("berthhttp: the base transport returned neither a response nor an error")

// send makes the call and ties the permit to the response's body. If there is none, or
// base panics, it gives the permit back.
func (t *Transport) send(p *gate.Permit, req *http.Request) (*http.Response, error) {
	h := newHold(t.limiter, p, req)
	kept := false
	defer func() {
		if !kept {
			h.finish()
		}
	}()
	resp, err := t.base.RoundTrip(req.WithContext(h.ctx))
	switch {
	case err != nil:
		return nil, h.explain(err)
	case resp == nil:
		return nil, errNoResponse
	}
	resp.Request = req.WithContext(p.Carry(req.Context()))
	t.limiter.obey(req.Context(), p.Asks, resp)
	t.limiter.Answered(p, resp)
	kept, err = h.keep(resp)
	if err != nil {
		return nil, err
	}
	return resp, nil
}
