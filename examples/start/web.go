package main

import (
	"context"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// serveTransfer transfers from the account that the path names.
func serveTransfer(w http.ResponseWriter, r *http.Request) {
	err := transfer(r.Context(), r.PathValue("id"), r.FormValue("to"))
	switch {
	case err == nil, r.Context().Err() != nil: // a lost lock is answered with 503
	case errors.Is(err, renewer.ErrLost): // so is what the database has found late
		httpmw.Respond(w, r, err)
	default:
		http.Error(w, "not transferred", http.StatusInternalServerError)
	}
}

// webServer has that under the lock of the account.
func webServer(keeper *renewer.Keeper) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer", httpmw.Middleware(keeper,
		func(r *http.Request) string { return accountLock(r.PathValue("id")) },
	)(http.HandlerFunc(serveTransfer)))
	mux.Handle("GET /ready", ready(keeper))        // for a readiness probe
	mux.Handle("GET /metrics", promhttp.Handler()) // for Prometheus, and nobody else
	return &http.Server{
		Addr: webAddr, Handler: mux, ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:  time.Minute,
		WriteTimeout: time.Minute, // more than the wait (10 s) and the work together
	}
}

// web serves HTTP.
func web(stop context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	keeper, closeLocks := openLocks(redis, observer)
	server := webServer(keeper)
	stopped := make(chan struct{})
	context.AfterFunc(stop, func() {
		server.Shutdown(context.Background())
		close(stopped)
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	closeLocks() // while Shutdown waits for handlers: requests that wait for a lock get 503
	<-stopped
}
