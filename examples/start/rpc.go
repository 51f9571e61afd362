package main

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/health/grpc_health_v1" // stands in for your own .pb.go
	"google.golang.org/grpc/reflection"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// bank has one method: it transfers from the account that the request names.
type bank struct{ pb.UnimplementedHealthServer }

func (bank) Check(ctx context.Context, r *pb.HealthCheckRequest) (*pb.HealthCheckResponse, error) {
	return &pb.HealthCheckResponse{}, transfer(ctx, r.GetService(), "8")
}

// rpcServer puts the method under the lock of the account.
func rpcServer(keeper *renewer.Keeper) *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(keeper,
		grpcmw.ForMethod(pb.Health_Check_FullMethodName,
			func(r *pb.HealthCheckRequest) string { return accountLock(r.GetService()) }))))
	pb.RegisterHealthServer(server, bank{})
	reflection.Register(server) // for grpcurl
	return server
}

// rpc serves gRPC.
func rpc(stop context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	keeper, closeLocks := openLocks(redis, observer)
	server := rpcServer(keeper)
	listener, err := net.Listen("tcp", rpcAddr)
	must(err)
	go func() { must(server.Serve(listener)) }()
	<-stop.Done()
	var both sync.WaitGroup
	both.Go(server.GracefulStop) // waits for calls
	both.Go(closeLocks)          // refuses those that wait for a lock
	both.Wait()
}
