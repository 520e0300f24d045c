package berthhttp

import (
	"net/http"
	"strings"
)

// ByHost returns the host to which r goes, in lower case, with the port unless
// it is the scheme's own: http and https to one host share a limit.
func ByHost(r *http.Request) string {
	host := strings.TrimSuffix(strings.ToLower(r.URL.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := r.URL.Port()
	if port == "" || r.URL.Scheme == "http" && port == "80" || r.URL.Scheme == "https" && port == "443" {
		return host
	}
	return host + ":" + port
}

// ByHeader returns a function, for Key and Tenant, that returns the value of a request's header, or
// the empty string if there is none.
func ByHeader(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.Header.Get(name) }
}
