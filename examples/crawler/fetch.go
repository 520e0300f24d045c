package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	agent = "berth-crawler"
	most  = 1 << 20 // bytes of a page or a robots.txt that are looked at
)

// newClient returns what makes the requests. A redirect is a link like any other: its
// target's host has a limit of its own.
func newClient(j job) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if j.Connect != "" {
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, j.Connect)
		}
	}
	return &http.Client{
		Transport: transport, Timeout: j.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch fetches a page and returns what came of it and the pages that it links to.
func fetch(ctx context.Context, client *http.Client, page *url.URL) (outcome float64, links []*url.URL) {
	status, header, body, err := get(ctx, client, page.String())
	if err != nil {
		return failed, nil
	}
	if target, err := page.Parse(header.Get("Location")); err == nil && status/100 == 3 {
		return fetched, []*url.URL{target}
	}
	doc, err := html.Parse(bytes.NewReader(body))
	if status != http.StatusOK || err != nil {
		return failed, nil
	}
	for n := range doc.Descendants() {
		for _, attr := range n.Attr {
			if u, err := page.Parse(attr.Val); err == nil && n.DataAtom == atom.A && attr.Key == "href" {
				links = append(links, u)
			}
		}
	}
	return fetched, links
}

// fetchRobots returns a host's robots.txt: the status, a line feed and the text. No
// answer is status 0.
func fetchRobots(ctx context.Context, client *http.Client, host string) []byte {
	status, _, body, err := get(ctx, client, host+"/robots.txt")
	if err != nil {
		return []byte("0\n")
	}
	return fmt.Appendf(nil, "%d\n%s", status, body)
}

// get makes a request and reads as much of the answer as anybody wants.
func get(ctx context.Context, client *http.Client, url string) (status int, header http.Header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("User-Agent", agent+"/1.0")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, most))
	return resp.StatusCode, resp.Header, body, err
}

// clean writes the URL of a page in the one form in which the crawl knows it; false if
// it is none that can be fetched.
func clean(u *url.URL) bool {
	u.Host, u.User, u.Fragment, u.RawFragment = strings.ToLower(u.Host), nil, "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// hostOf returns the host of a page as the crawl names it: http://example.com
func hostOf(page *url.URL) string { return page.Scheme + "://" + page.Host }
