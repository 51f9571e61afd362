package grpcmw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// requireBounded waits until an operation has had its lock for five minutes.
func requireBounded(ctx context.Context, t *testing.T) error {
	begun := time.Now()
	<-ctx.Done()
	var lost *renewer.LostError
	require.ErrorAs(t, context.Cause(ctx), &lost)
	require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
	require.Equal(t, 5*time.Minute, time.Since(begun))
	return ctx.Err()
}

func TestMaxHoldOfACall(t *testing.T) {
	t.Parallel()
	rule := grpcmw.ForMethod(unary, account)
	option, short := grpcmw.MaxHold(5*time.Minute), grpcmw.MaxHold(time.Second)
	synctest.Test(t, func(t *testing.T) {
		k, _ := scripted(t)
		_, err := grpcmw.UnaryServerInterceptor(k, rule, option)(t.Context(), request("a"),
			&grpc.UnaryServerInfo{FullMethod: unary},
			func(ctx context.Context, _ any) (any, error) {
				return nil, requireBounded(ctx, t)
			})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
		require.Panics(t, func() { grpcmw.UnaryServerInterceptor(k, rule, short) })
		require.Panics(t, func() { grpcmw.StreamServerInterceptor(k, short) })
	})
}

func TestMaxHoldOfAnIdempotentCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, _ := scripted(t)
		s := newShop(k, grpcmw.MaxHold(5*time.Minute))
		s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return nil, requireBounded(ctx, t)
		}
		_, err := s.order(t.Context(), "k", "pen")
		require.NotEqual(t, codes.OK, verdictOf(t, err).code)
		require.Panics(t, func() { newShop(k, grpcmw.MaxHold(time.Second)) })
	})
}
