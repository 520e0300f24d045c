package berthweb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
)

// account is a user of a program.
type account struct {
	Name     string
	Operator bool
}

// sessionOf and loggedIn stand for a program's own login.
func sessionOf(*http.Request) account { return account{"ann", true} }

func loggedIn(next http.Handler) http.Handler { return next }

// A program shows the pages below /berth/, behind its own login.
func Example() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	mux := http.NewServeMux()

	sampler := berthwatch.New(client.Inspector(), berthwatch.Options{})
	go sampler.Run(ctx)
	pages, err := berthweb.New(sampler, client.Inspector(), berthweb.Options{
		Hosts: []string{"ops.example.com"},
		User: func(r *http.Request) (name string, mayWrite bool) {
			user := sessionOf(r)
			return user.Name, user.Operator
		},
	})
	mux.Handle("/berth/", loggedIn(http.StripPrefix("/berth", pages)))

	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodGet, "https://ops.example.com/berth/about", nil)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output: 200
}
