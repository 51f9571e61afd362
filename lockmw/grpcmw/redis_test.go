package grpcmw_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

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

// gauge counts who is in at the same time, by account.
type gauge struct {
	in             [5]atomic.Int64
	runs, overlaps atomic.Int64
}

func (g *gauge) use(account string) {
	n := &g.in[account[1]-'0']
	if n.Add(1) > 1 {
		g.overlaps.Add(1)
	}
	g.runs.Add(1)
	<-time.After(time.Duration(rand.N(2_000_000)))
	n.Add(-1)
}

// Two servers, calls of two kinds on the same accounts, some of which
// are given up in the middle: one at a time, and nothing is left.
func TestCallsOfTwoServersExcludeEachOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var g gauge
	s := &service{
		unary: func(_ context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			g.use(account(r))
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(stream duplexServer) error {
			first, err := stream.Recv()
			if err != nil {
				return err
			}
			g.use(outputAccount(first))
			return echo(stream)
		},
	}
	var clients []pb.TestServiceClient
	for range 2 {
		k := redisKeeper(t, redis)
		addr, _ := serve(t, s,
			grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k,
				grpcmw.ForMethod(unary, account))),
			grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k,
				grpcmw.ForMethod(duplex, outputAccount))))
		clients = append(clients, pb.NewTestServiceClient(dial(t, addr)))
	}
	var callers sync.WaitGroup
	for i := range 24 {
		callers.Go(func() {
			for j := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				if (i+j)%7 == 0 {
					time.AfterFunc(time.Duration(rand.N(3_000_000)), cancel)
				}
				account := fmt.Sprintf("a%d", rand.N(5))
				if err := callOrStream(ctx, clients[i%2], account, j%2 == 0); err != nil {
					assert.Equal(t, codes.Canceled, status.Code(err), "%v", err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	require.Zero(t, g.overlaps.Load())
	require.Greater(t, g.runs.Load(), int64(120))
	for _, account := range []string{"a0", "a1", "a2", "a3", "a4"} {
		require.Eventually(t, func() bool {
			n, err := redis.Do("EXISTS", "lockbeat:{"+account+"}").AsInt64()
			return err == nil && n == 0
		}, soon, tick)
	}
}

func callOrStream(
	ctx context.Context, client pb.TestServiceClient, account string, unary bool,
) error {
	if unary {
		_, err := client.UnaryCall(ctx, request(account))
		return err
	}
	stream, err := client.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(outputRequest(account))
	if err != nil && err != io.EOF { //nolint:errorlint // as gRPC says it
		return err
	}
	return drain(stream)
}

// A server that can't ask Redis says so, and serves again when it can.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	k := redisKeeper(t, redis)
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account), grpcmw.Refuse())
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	redis.Kill()
	_, err = client.UnaryCall(within(t, soon), request("a1"))
	v := verdictOf(t, err)
	require.Equal(t, verdict{codes.Unavailable, grpcmw.ReasonUnavailable, v.retryIn}, v)
	require.Positive(t, v.retryIn)
	require.NoError(t, redis.Restart())
	require.Eventually(t, func() bool {
		_, err := client.UnaryCall(within(t, soon), request("a1"))
		return err == nil
	}, soon, tick)
}
