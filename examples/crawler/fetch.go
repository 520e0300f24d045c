package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	agent      = "berth-crawler"
	mostPage   = 1 << 20   // bytes of a page that are looked at
	mostRobots = 500 << 10 // RFC 9309 asks for at least this much
)

// fetcher makes the requests.
type fetcher struct {
	http    *http.Client
	timeout time.Duration
}

// newFetcher returns one that sends every request to the address connect, if
// that is not empty, whatever its host: for sites that have no name yet.
func newFetcher(connect string, timeout time.Duration) *fetcher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if connect != "" {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, connect)
		}
	}
	return &fetcher{timeout: timeout, http: &http.Client{
		Transport: transport,
		// A redirect is a link like any other: its target's host has a limit of its own.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (f *fetcher) close() { f.http.CloseIdleConnections() }

// answer is what came of a request.
type answer struct {
	outcome string
	size    int64
	links   []string
}

// page fetches a page within ctx and the time-out.
func (f *fetcher) page(ctx context.Context, u *url.URL) answer {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	resp, err := f.get(ctx, u)
	if err != nil {
		return answer{outcome: failed}
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.Header.Get("Location") != "":
		return answer{outcome: moved, links: []string{resp.Header.Get("Location")}}
	case resp.StatusCode != http.StatusOK:
		return answer{outcome: failed}
	}
	return read(resp)
}

func read(resp *http.Response) answer {
	body := &counter{from: io.LimitReader(resp.Body, mostPage)}
	a := answer{outcome: fetched}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		a.links = links(body)
	}
	_, _ = io.Copy(io.Discard, body)
	a.size = body.n
	if body.err != nil {
		a.outcome = failed // cut off; what was read of it may still lead on
	}
	return a
}

// robots fetches a host's robots.txt. No answer is an answer: Status is 0.
func (f *fetcher) robots(ctx context.Context, scheme, host string) robotsFile {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	resp, err := f.get(ctx, &url.URL{Scheme: scheme, Host: host, Path: "/robots.txt"})
	if err != nil {
		return robotsFile{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostRobots))
	if err != nil {
		return robotsFile{}
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		// Following it would need a permit of another host: treat it as none.
		return robotsFile{Status: http.StatusNotFound}
	}
	return robotsFile{Status: resp.StatusCode, Body: body}
}

func (f *fetcher) get(ctx context.Context, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", agent+"/1.0")
	return f.http.Do(req)
}

// counter counts what it passes on, and remembers an error.
type counter struct {
	from io.Reader
	n    int64
	err  error
}

// Read implements io.Reader; the end of the input is no error to remember.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
