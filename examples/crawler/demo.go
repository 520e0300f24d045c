package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// startDemo serves three hosts on one address, and returns that address and a page of
// each host. Page N links to 2N and 2N+1.
func startDemo() (addr string, seeds []string) {
	robots := map[string]string{"three.test": "Request-rate: 3/0s", "slow.test": "Crawl-delay: 1\nDisallow: /2", "two.test": ""}
	pages := map[string]int{"three.test": 150, "slow.test": 7, "two.test": 100}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(20 * time.Millisecond)
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		switch {
		case r.URL.Path == "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\n%s\n", robots[r.Host])
		case err != nil || n < 1 || n > pages[r.Host]:
			http.NotFound(w, r)
		default:
			for next := 2 * n; next <= min(2*n+1, pages[r.Host]); next++ {
				fmt.Fprintf(w, "<p><a href=/%d>page %d</a>", next, next)
			}
		}
	}))
	for host := range robots {
		seeds = append(seeds, "http://"+host+"/1")
	}
	return server.Listener.Addr().String(), seeds
}
