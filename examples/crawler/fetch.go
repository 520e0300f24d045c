package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/net/html"
)

const (
	agent      = "berth-crawler"
	mostPage   = 1 << 20   // bytes of a page that are looked at
	mostRobots = 500 << 10 // RFC 9309 asks for at least this much
	mostLinks  = 500       // of one page
	mostURL    = 2000      // bytes
)

// fetcher makes the requests.
type fetcher struct{ http *http.Client }

// newFetcher returns one that sends every request to the address connect, if
// that is not empty, whatever its host: for sites that have no name yet.
func newFetcher(connect string, timeout time.Duration) *fetcher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if connect != "" {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, connect)
		}
	}
	return &fetcher{&http.Client{
		Transport: transport, Timeout: timeout,
		// A redirect is a link like any other: its target's host has a limit of its own.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (f *fetcher) close() { f.http.CloseIdleConnections() }

// answer is what came of a request.
type answer struct {
	outcome string
	size    int
	links   []string
}

// page fetches a page.
func (f *fetcher) page(ctx context.Context, u *url.URL) answer {
	status, header, body, err := f.get(ctx, u, mostPage)
	a := answer{outcome: fetched, size: len(body)}
	switch {
	case status >= 300 && status < 400 && header.Get("Location") != "":
		return answer{outcome: moved, links: []string{header.Get("Location")}}
	case err != nil || status != http.StatusOK:
		a.outcome = failed // cut off; what was read of it may still lead on
	}
	if status == http.StatusOK && strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		a.links = links(string(body))
	}
	return a
}

// robots fetches a host's robots.txt. No answer is an answer: Status is 0.
func (f *fetcher) robots(ctx context.Context, scheme, host string) robotsFile {
	status, _, body, err := f.get(ctx, &url.URL{Scheme: scheme, Host: host, Path: "/robots.txt"}, mostRobots)
	switch {
	case err != nil:
		return robotsFile{}
	case status >= 300 && status < 400: // following it would need a permit of another host
		return robotsFile{Status: http.StatusNotFound}
	}
	return robotsFile{Status: status, Body: body}
}

func (f *fetcher) get(ctx context.Context, u *url.URL, most int64) (status int, header http.Header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("User-Agent", agent+"/1.0")
	resp, err := f.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, most))
	return resp.StatusCode, resp.Header, body, err
}

// links returns the references of a page, as they are written.
func links(text string) (refs []string) {
	for tokens := html.NewTokenizer(strings.NewReader(text)); len(refs) < mostLinks; {
		switch tokens.Next() {
		case html.ErrorToken: // the end
			return refs
		case html.StartTagToken, html.SelfClosingTagToken:
			if token := tokens.Token(); token.Data == "a" || token.Data == "area" {
				for _, attr := range token.Attr {
					if attr.Key == "href" {
						refs = append(refs, attr.Val)
					}
				}
			}
		}
	}
	return refs
}

// Strict, because hosts become names of semaphores and keys.
var goodHost = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$`)

// clean resolves a reference and writes its URL in the one form in which the
// crawl knows it. false: it is none that can be fetched.
func clean(base *url.URL, ref string) (*url.URL, bool) {
	u, err := url.Parse(strings.TrimSpace(ref))
	if err != nil || len(ref) > mostURL {
		return nil, false
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	port, ok := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), port)
	if !ok || !goodHost.MatchString(u.Host) {
		return nil, false
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u, true
}
