package grpcmw_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Who monitors a server and who explores it are not kept waiting.
func TestHealthAndReflectionBesideALockedService(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{},
		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k,
			grpcmw.ForMethod(duplex, outputAccount))))
	conn := dial(t, addr)
	health, err := healthpb.NewHealthClient(conn).Check(within(t, soon),
		&healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthpb.HealthCheckResponse_SERVING, health.GetStatus())
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(within(t,
		soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}))
	reply, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, reply.GetListServicesResponse().GetService(), 4)
	require.NoError(t, stream.CloseSend())
	require.NoError(t, last(stream))
	require.Empty(t, store.Calls(script.Acquire))
}

// Locks in a chain: two interceptors, one lock each, the outer one's first.
func TestTwoLocksForOneCall(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			assert.True(t, lockmw.Held(ctx, unary))
			assert.True(t, lockmw.Held(ctx, "a1"))
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(stream duplexServer) error {
			_, err := stream.Recv()
			assert.NoError(t, err)
			assert.True(t, lockmw.Held(stream.Context(), duplex))
			assert.True(t, lockmw.Held(stream.Context(), "a1"))
			lose(store, duplex)
			_, err = stream.Recv()
			assert.ErrorIs(t, err, renewer.ErrLost)
			return err
		},
	},
		grpc.ChainUnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.ForWholeMethod(unary)),
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))),
		grpc.ChainStreamInterceptor(grpcmw.StreamServerInterceptor(newKeeper(t, store, fast),
			grpcmw.ForWholeMethod(duplex)),
			grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount))))
	client := pb.NewTestServiceClient(dial(t, addr))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
		verdictOf(t, last(stream)))
	free(t, store, "a1")
}
