package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	agent = "berth-crawler"
	most  = 1 << 20 // bytes of a page or a robots.txt that are read
)

// newWeb returns the HTTP client. It does not follow a redirect, which is a link like any
// other: the host of its target has a limit of its own.
func newWeb(j job) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cmp.Or(j.Connect, addr))
	}
	return &http.Client{
		Transport: transport, Timeout: j.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// start adds the seeds, which name the crawl's hosts, to its frontier. It fetches the
// robots.txt of each host, for all processes.
func (j *job) start(ctx context.Context, rdb *redis.Client, web *http.Client, seeds []string) (*frontier, error) {
	var pages []*url.URL
	for _, seed := range seeds {
		page, err := url.Parse(seed)
		if err != nil || !clean(page) {
			return nil, fmt.Errorf("%q is not a URL to start from: write http://host/path", seed)
		}
		pages = append(pages, page)
	}
	j.Robots = map[string]answer{}
	for _, page := range pages {
		host := hostOf(page)
		if _, known := j.Robots[host]; !known {
			j.Robots[host] = get(ctx, web, host+"/robots.txt")
		}
	}
	f := newFrontier(rdb, *j)
	return f, f.add(ctx, pages)
}

// fetch fetches a page and returns its outcome and the pages that it links to.
func fetch(ctx context.Context, web *http.Client, page string) (outcome int, links []*url.URL) {
	a := get(ctx, web, page)
	if a.Status/100 == 3 && a.moved != nil {
		return fetched, []*url.URL{a.moved}
	}
	doc, err := html.Parse(bytes.NewReader(a.Body))
	if err != nil || a.Status != http.StatusOK {
		return failed, nil
	}
	for n := range doc.Descendants() {
		for _, attr := range n.Attr {
			if u, err := a.page.Parse(attr.Val); err == nil && n.DataAtom == atom.A && attr.Key == "href" {
				links = append(links, u)
			}
		}
	}
	return fetched, links
}

// answer is a host's answer to a request for a page.
type answer struct {
	Status      int // 0: no complete answer
	Body        []byte
	page, moved *url.URL // moved: where the page is instead, or nil
}

func get(ctx context.Context, web *http.Client, page string) (a answer) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return a
	}
	req.Header.Set("User-Agent", agent+"/1.0")
	resp, err := web.Do(req)
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return a
	}
	moved, _ := resp.Location()
	return answer{resp.StatusCode, body, req.URL, moved}
}

// clean normalizes the URL of a page, so that the crawl knows each page by one name. It
// reports false if the URL cannot be fetched.
func clean(u *url.URL) bool {
	u.Host, u.User, u.Fragment, u.RawFragment = strings.ToLower(u.Host), nil, "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// hostOf returns the host of a page as the crawl names it: http://example.com
func hostOf(page *url.URL) string { return page.Scheme + "://" + page.Host }
