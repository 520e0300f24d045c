package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// startDemo serves three hosts on one address, and returns that address and a page of
// each host. Page N links to 2N and 2N+1.
func startDemo() (addr string, seeds []string) {
	site := http.NewServeMux()
	for _, host := range []struct {
		name, robots string
		pages        int
	}{{"three.test", "Request-rate: 3/0s", 150}, {"slow.test", "Crawl-delay: 1\nDisallow: /2", 7}, {"two.test", "", 100}} {
		seeds = append(seeds, "http://"+host.name+"/1")
		site.HandleFunc(host.name+"/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "User-agent: *\n%s\n", host.robots)
		})
		site.HandleFunc(host.name+"/{page}", func(w http.ResponseWriter, r *http.Request) {
			<-time.After(20 * time.Millisecond)
			page, _ := strconv.Atoi(r.PathValue("page")) // a number: nothing links to anything else
			for next := 2 * page; next <= min(2*page+1, host.pages); next++ {
				fmt.Fprintf(w, "<p><a href=/%d>page %d</a>", next, next)
			}
		})
	}
	return httptest.NewServer(site).Listener.Addr().String(), seeds
}
