//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

const (
	leaseTTL = 5 * time.Second
	// Locks that the server holds throughout: their heartbeats must not suffer.
	idleLeases = 200
	// What a transfer takes.
	work = time.Millisecond
)

// serve is the server's process: it tells where it listens, and ends when its stdin does.
func serve(redis string, stdin io.Reader, stdout io.Writer) error {
	losses := new(lossCounter)
	keeper, closing, err := keep(redis, losses)
	if err != nil {
		return err
	}
	defer closing()
	for i := range idleLeases {
		if _, err := keeper.Acquire(context.Background(), fmt.Sprint("idle:", i)); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: routes(keeper, losses),
		// As the docs advise: what the locks can't bound.
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second,
	}
	go func() { _ = srv.Serve(ln) }()
	if _, err := fmt.Fprintln(stdout, ln.Addr()); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, stdin)
	return srv.Close()
}

func keep(redis string, o renewer.Observer) (k *renewer.Keeper, closing func(), err error) {
	option, err := redisstore.ClientOption(rueidis.ClientOption{InitAddress: []string{redis}},
		leaseTTL)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client)
	if err != nil {
		return nil, nil, err
	}
	k, err = renewer.New(store, renewer.Config{TTL: leaseTTL, MaxHold: time.Minute, Observer: o})
	return k, func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaseTTL)
		defer cancel()
		_ = k.Shutdown(ctx)
		store.Close()
		client.Close()
	}, err
}

// lossCounter counts leases that were lost, except those that were held for longer than allowed.
type lossCounter struct {
	renewer.NopObserver

	lost atomic.Int64
}

func (c *lossCounter) Lost(_ context.Context, e renewer.Lost) {
	if e.Err.Reason != renewer.ReasonMaxHold {
		c.lost.Add(1)
	}
}

type batch struct{ Accounts []string }

func (b batch) names() string {
	names := make([]string, len(b.Accounts))
	for i, a := range b.Accounts {
		names[i] = lockmw.Key("batch", a)
	}
	return lockmw.Keys(names...)
}

func byClient(r *http.Request) (string, error) { return r.Header.Get("X-Client"), nil }

func routes(k *renewer.Keeper, losses *lossCounter) http.Handler {
	transfer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		<-time.After(work)
		_, _ = io.WriteString(w, "done\n")
	})
	order := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Client") != honestName {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "done\n")
	})
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer",
		httpmw.Exclusive(k, httpmw.PathInt("id"), httpmw.Wait(5*time.Second))(transfer))
	// A client sends a request again whose connection breaks, be the first still under way.
	mux.Handle("POST /orders",
		idempotent.Middleware(k, byClient, idempotent.WaitForAnswer(5*time.Second))(order))
	mux.Handle("POST /batches",
		httpmw.Handle(k, batch.names, func(w http.ResponseWriter, _ *http.Request, _ batch) {
			_, _ = io.WriteString(w, "done\n")
		}))
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(stateNow(r.URL.Query().Has("gc"), losses))
	})
	return mux
}

// state is what the server is like.
type state struct {
	Goroutines int
	Heap       uint64 // bytes in use
	Resident   uint64 // bytes
	Lost       int64
}

func stateNow(gc bool, losses *lossCounter) state {
	for range 3 { // what pools keep is gone after two
		if gc {
			debug.FreeOSMemory()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return state{runtime.NumGoroutine(), m.HeapAlloc, resident(), losses.lost.Load()}
}

// resident is the process's memory, as the kernel counts it.
func resident() uint64 {
	var size, pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &size, &pages)
	}
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}
