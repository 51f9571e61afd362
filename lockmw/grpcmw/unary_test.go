package grpcmw_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

func TestUnaryCallRunsUnderItsLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	ran := false
	client := unaryServer(t, k, &service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		ran = true
		assert.True(t, lockmw.Held(ctx, "a1"))
		assert.Positive(t, lockmw.Fence(ctx))
		return &pb.SimpleResponse{Username: "me"}, nil
	}}, grpcmw.ForMethod(unary, account))
	reply, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	require.Equal(t, "me", reply.GetUsername())
	require.True(t, ran)
	free(t, store, "a1")
}

func TestBusyUnaryCallIsRefused(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	release := hold(t, k, "a1")
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account), grpcmw.Refuse())
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	v := verdictOf(t, err)
	require.Equal(t, codes.Aborted, v.code)
	require.Equal(t, grpcmw.ReasonBusy, v.reason)
	require.Positive(t, v.retryIn)
	_, err = client.EmptyCall(within(t, soon), &pb.Empty{})
	require.Equal(t, codes.Unimplemented, verdictOf(t, err).code, "a method without a rule")
	release()
	_, err = client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
}
