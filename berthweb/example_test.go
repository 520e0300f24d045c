package berthweb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthadmin"
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
	store := berthtest.Start() // stands in for Redis
	defer store.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	mux := http.NewServeMux()
	if err := mount(ctx, mux, store.Redis()); err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodGet, "https://ops.example.com/berth/about", nil)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output: 200
}

func mount(ctx context.Context, mux *http.ServeMux, rdb redis.UniversalClient) error {
	in, err := berthadmin.New(rdb, berthadmin.Options{})
	if err != nil {
		return err
	}
	sampler := berthwatch.New(in, berthwatch.Options{})
	go sampler.Run(ctx)
	pages, err := berthweb.New(sampler, in, berthweb.Options{
		Hosts: []string{"ops.example.com"},
		User: func(r *http.Request) (name string, mayWrite bool) {
			user := sessionOf(r)
			return user.Name, user.Operator
		},
	})
	if err != nil {
		return err
	}
	mux.Handle("/berth/", loggedIn(http.StripPrefix("/berth", pages)))
	return nil
}
