package page_test

import (
	"net/http"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func Example() {
	store := memory.New() // or that of package redisstore
	locks, err := page.New(store, page.Config{
		BreakAs: func(r *http.Request) string {
			user, _, _ := r.BasicAuth() // whom your own middleware has let in
			return user
		},
	})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", locks)) // inside of your authentication
	server := &http.Server{Handler: mux}
	server.RegisterOnShutdown(locks.Close)
}
