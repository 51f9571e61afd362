package grpcmw_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Fifty equal calls race through two servers on one Redis.
func TestEqualCallsOnTwoServers(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var runs, replayed atomic.Int64
	var clients []pb.TestServiceClient
	for range 2 {
		addr, _ := serve(t, &service{
			unary: func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				runs.Add(1)
				return &pb.SimpleResponse{Username: account(r)}, nil
			},
		}, grpc.UnaryInterceptor(grpcmw.Idempotent(redisKeeper(t, redis),
			func(context.Context) string { return "ann" }, []string{unary},
			grpcmw.WaitForAnswer(soon))))
		clients = append(clients, pb.NewTestServiceClient(dial(t, addr)))
	}
	ctx := metadata.AppendToOutgoingContext(within(t, 2*soon), grpcmw.IdempotencyKey, "8e03978e")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			var header metadata.MD
			got, err := clients[i%2].UnaryCall(ctx, request("pen"), grpc.Header(&header))
			assert.NoError(t, err)
			assert.Equal(t, "pen", got.GetUsername())
			replayed.Add(int64(len(header.Get(grpcmw.ReplayedKey))))
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, runs.Load())
	assert.EqualValues(t, 49, replayed.Load())
}
