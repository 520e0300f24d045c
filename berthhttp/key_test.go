package berthhttp_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/berth-go/berth/berthhttp"
)

func TestByHost(t *testing.T) {
	for raw, want := range map[string]string{
		"http://a.test":           "a.test",
		"https://A.TEST.:443/x":   "a.test",
		"https://a.test:80":       "a.test:80",
		"http://u:p@a.test:8080/": "a.test:8080",
		"http://[::1]":            "[::1]",
		"http://[::1]:81":         "[::1]:81",
		"/path":                   "",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := berthhttp.ByHost(&http.Request{URL: u}); got != want {
			t.Errorf("%s goes to %q, want %q", raw, got, want)
		}
	}
}
