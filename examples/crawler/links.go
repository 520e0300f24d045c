package main

import (
	"io"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

const (
	mostLinks = 500  // of one page
	mostURL   = 2000 // bytes
)

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
	u.Host = strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		u.Host = strings.TrimSuffix(u.Host, ":80")
	case "https":
		u.Host = strings.TrimSuffix(u.Host, ":443")
	default:
		return nil, false
	}
	if !goodHost.MatchString(u.Host) {
		return nil, false
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	return u, true
}

// links returns the references of a page, as they are written.
func links(body io.Reader) (refs []string) {
	tokens := html.NewTokenizer(body)
	for len(refs) < mostLinks {
		switch tokens.Next() {
		case html.ErrorToken: // the end, of the page or of the connection
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
