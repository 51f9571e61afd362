package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"google.golang.org/grpc"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// all is a process that has all three. They share a keeper.
func all(stop context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	keeper, closeLocks := openLocks(redis, observer)
	option, err := asynqmw.RedisOpt(redis)
	must(err)
	locks, config := asynqmw.Configure(keeper, option, asynq.Config{Concurrency: 20})
	defer locks.Close()
	mux := asynq.NewServeMux()
	transferTasks(mux, locks)
	worker := asynq.NewServer(option, config)
	must(worker.Start(mux))

	web, rpc := webServer(keeper), rpcServer(keeper)
	listener, err := net.Listen("tcp", rpcAddr)
	must(err)
	go func() { must(rpc.Serve(listener)) }()
	go func() {
		if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			must(err)
		}
	}()

	<-stop.Done()
	begun := time.Now()
	stopAll(worker, web, rpc, closeLocks)
	log.Printf("stopped after %v", time.Since(begun))
}

// stopAll is called when SIGTERM has come.
func stopAll(worker *asynq.Server, web *http.Server, rpc *grpc.Server, closeLocks func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	worker.Stop() // first: it takes no more tasks
	var all sync.WaitGroup
	all.Go(worker.Shutdown)
	all.Go(func() { web.Shutdown(ctx) })
	all.Go(func() {
		defer context.AfterFunc(ctx, rpc.Stop)() // a stream may never end
		rpc.GracefulStop()
	})
	all.Go(closeLocks) // refuses callers in line, waits for work that runs, frees its locks
	all.Wait()
}

// ready is the readiness probe. It asks the keeper, and not Redis.
func ready(keeper *renewer.Keeper) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if keeper.HealthCheck() != nil {
			http.Error(w, "no locks", http.StatusServiceUnavailable)
		}
	}
}
