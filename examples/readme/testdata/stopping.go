// A process that has an asynq worker, an HTTP and a gRPC server, for the test of stopAll, which
// docs/operate.md shows. It is compiled with the README's locks.go.
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

type bank struct{ pb.UnimplementedHealthServer }

func (bank) Check(ctx context.Context, r *pb.HealthCheckRequest) (*pb.HealthCheckResponse, error) {
	return &pb.HealthCheckResponse{}, transfer(ctx, r.GetService(), "8")
}

func main() {
	keeper, closeLocks := openLocks()
	redis := asynq.RedisClientOpt{Addr: redisAddr}

	tasks := asynq.NewServeMux()
	tasks.Handle("transfer", asynqmw.Handle(keeper, accountLock,
		func(ctx context.Context, from string) error { return transfer(ctx, from, "8") },
		asynqmw.SharedKey(), asynqmw.InLine(redis)))
	worker := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{Concurrency: 4}))
	must(worker.Start(tasks))

	routes := http.NewServeMux()
	routes.Handle("POST /accounts/{id}/transfer", httpmw.Exclusive(keeper,
		func(r *http.Request) (string, error) { return accountLock(r.PathValue("id")), nil },
	)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := transfer(r.Context(), r.PathValue("id"), "9"); err != nil {
			log.Print(err)
		}
	})))
	web := &http.Server{Addr: ":8080", Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	rpc := grpc.NewServer(grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(keeper,
		grpcmw.ForMethod(pb.Health_Check_FullMethodName,
			func(r *pb.HealthCheckRequest) string { return accountLock(r.GetService()) }))))
	pb.RegisterHealthServer(rpc, bank{})

	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	listener, err := net.Listen("tcp", ":9090")
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
