package libraries_test

import (
	"context"
	"testing"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// selector decides call by call whether our interceptors are asked at all.
func TestSelector(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	defer hold(t, k, "a1")()
	held := store.Calls(script.Acquire)
	urgent := false
	match := selector.MatchFunc(func(_ context.Context, c interceptors.CallMeta) bool {
		return !urgent && c.Service == pb.TestService_ServiceDesc.ServiceName
	})
	addr, _ := serve(t, &service{output: func(*pb.StreamingOutputCallRequest, outputServer) error {
		return nil
	}},
		grpc.ChainUnaryInterceptor(recovery.UnaryServerInterceptor(),
			selector.UnaryServerInterceptor(grpcmw.UnaryServerInterceptor(k,
				grpcmw.ForMethod(unary, account), lockmw.Refuse()), match)),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(),
			selector.StreamServerInterceptor(grpcmw.StreamServerInterceptor(k,
				grpcmw.ForMethod(output, outputAccount), lockmw.Refuse()), match)))
	client := pb.NewTestServiceClient(dial(t, addr))
	for _, urgent = range []bool{false, true} {
		_, err := client.UnaryCall(t.Context(), request("a1"))
		stream, openErr := client.StreamingOutputCall(t.Context(), outputRequest("a1"))
		require.NoError(t, openErr)
		streamErr := last(stream)
		if urgent {
			require.NoError(t, err)
			require.NoError(t, streamErr)
		} else {
			require.Equal(t, "LOCK_BUSY", reasonOf(t, err))
			require.Equal(t, "LOCK_BUSY", reasonOf(t, streamErr))
		}
	}
	require.Len(t, store.Calls(script.Acquire), len(held),
		"those that were refused stood in line here")
}

// recovery, further out, makes an Internal of a panic; the lock is free by then.
func TestRecovery(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			panic("boom")
		},
		output: func(*pb.StreamingOutputCallRequest, outputServer) error { panic("boom") },
	},
		grpc.ChainUnaryInterceptor(recovery.UnaryServerInterceptor(),
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.ChainStreamInterceptor(recovery.StreamServerInterceptor(),
			grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(output, outputAccount))))
	client := pb.NewTestServiceClient(dial(t, addr))
	_, err := client.UnaryCall(t.Context(), request("a1"))
	require.Equal(t, codes.Unknown, status.Code(err))
	require.ErrorContains(t, err, "boom")
	stream, err := client.StreamingOutputCall(t.Context(), outputRequest("a1"))
	require.NoError(t, err)
	require.ErrorContains(t, last(stream), "boom")
	require.Empty(t, store.Owner("a1"), "the lock is still held")
	require.Len(t, store.Calls(script.Release), 2)
}
