// Start has the programs that the README and the docs begin with, one file
// each. They take the same locks, so that they exclude each other, on the Redis
// that LOCKBEAT_URL names:
//
//	go run ./examples/start worker    # asynq tasks, until Ctrl-C
//	go run ./examples/start web       # an HTTP server on port 8080
//	go run ./examples/start rpc       # a gRPC server on port 9090
//	go run ./examples/start all       # a process with all three, and how it is stopped
//	go run ./examples/start cron      # a schedule: start two
//	go run ./examples/start trace     # traces of who waits for whom
//
// With DATABASE_URL transfers are made in PostgreSQL, by connections that carry
// fences.
//
// To make it yours, copy the files that you want into a folder of your own,
// with locks.go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// What tests set otherwise.
var (
	webAddr, rpcAddr = ":8080", ":9090"
	tracesAddr       = "localhost:4318" // of a collector
	workTime         = time.Second      // how long a transfer takes
)

var programs = map[string]func(context.Context, redisstore.Deployment, renewer.Observer){
	"worker": worker, "web": web, "rpc": rpc, "all": all, "cron": schedule, "trace": trace,
}

func main() {
	if len(os.Args) != 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "say which: worker, web, rpc, all, cron or trace")
		os.Exit(2)
	}
	redis, err := redisstore.FromEnv() // LOCKBEAT_URL, or redis://127.0.0.1:6379
	must(err)
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if url := os.Getenv("DATABASE_URL"); url != "" {
		accounts = openAccounts(stop, url)
	}
	programs[os.Args[1]](stop, redis, newObserver())
}
