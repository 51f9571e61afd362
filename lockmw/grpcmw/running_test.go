package grpcmw_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// One caller's calls at once are bounded. One more is told so, and not that its key is in flight.
func TestACallerHasSoManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k, grpcmw.MaxRunningPerCaller(1))
		finish := make(chan struct{})
		answer := s.handle
		s.handle = func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-finish
			return answer(ctx, r)
		}
		var first sync.WaitGroup
		first.Go(func() { _, _ = s.order(t.Context(), "a", "pen") })
		elapse(time.Second)
		_, err := s.order(t.Context(), "b", "pen")
		v := verdictOf(t, err)
		require.Equal(t, verdict{codes.ResourceExhausted, grpcmw.ReasonTooMany, v.retryIn}, v)
		require.Positive(t, v.retryIn)
		require.Equal(t, time.Second, b.passed(), "at once")
		_, err = s.order(t.Context(), "a", "pen")
		require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)

		close(finish)
		first.Wait()
		_, err = s.order(t.Context(), "b", "pen")
		require.NoError(t, err)
		require.Equal(t, 2, s.runs)
	})
}

// A client that made calls and closed its connection, over and over, had any number of handlers
// running with no connection open.
func TestCallsThatOutliveTheirConnectionAreBounded(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	finish := make(chan struct{})
	var running, refused atomic.Int64
	addr, _ := serve(t, &service{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			running.Add(1)
			<-finish
			return &pb.SimpleResponse{}, nil
		},
	}, grpc.WaitForHandlers(true), grpc.UnaryInterceptor(grpcmw.Idempotent(k,
		func(context.Context) string { return "ann" }, []string{unary})))
	t.Cleanup(func() { close(finish) }) // before the server stops
	for round := range 4 {
		conn := dial(t, addr)
		var sent sync.WaitGroup
		for i := range 40 {
			sent.Go(func() {
				ctx := metadata.AppendToOutgoingContext(within(t, soon), grpcmw.IdempotencyKey,
					strconv.Itoa(round*40+i))
				_, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, request("pen"))
				if verdictOf(t, err).code == codes.ResourceExhausted {
					refused.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool {
			return running.Load()+refused.Load() == int64(round+1)*40
		}, soon, tick)
		require.NoError(t, conn.Close())
		sent.Wait()
	}
	assert.EqualValues(t, grpcmw.DefaultMaxRunningPerCaller, running.Load())
}
