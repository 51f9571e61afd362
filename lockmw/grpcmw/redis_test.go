package grpcmw_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// redisKeeper is that of one node, on a connection of its own.
func redisKeeper(t *testing.T, server *redistest.Server) *renewer.Keeper {
	t.Helper()
	option, err := redisstore.ClientOption(server.ClientOption(), renewer.DefaultTTL)
	require.NoError(t, err)
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	store, err := redisstore.New(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return newKeeper(t, store)
}

// Fifty equal calls race through two servers on one Redis.
func TestEqualCallsOnTwoServers(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var runs, replayed atomic.Int64
	var clients []pb.TestServiceClient
	for range 2 {
		client, end := serve(t, &service{
			unary: func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				runs.Add(1)
				return &pb.SimpleResponse{Username: account(r)}, nil
			},
		}, nil, grpc.UnaryInterceptor(grpcmw.Idempotent(redisKeeper(t, redis),
			grpcmw.IdempotentConfig{
				Caller: ann, Methods: []string{unary}, WaitForAnswer: soon,
			})))
		t.Cleanup(end)
		clients = append(clients, client)
	}
	ctx := with(within(t, 2*soon), "idempotency-key", "8e03978e")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			var header metadata.MD
			got, err := clients[i%2].UnaryCall(ctx, request("pen"), grpc.Header(&header))
			assert.NoError(t, err)
			assert.Equal(t, "pen", got.GetUsername())
			replayed.Add(int64(len(header.Get("idempotent-replayed"))))
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, runs.Load())
	assert.EqualValues(t, 49, replayed.Load())
}
