package contention_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A client that opens a stream and says nothing keeps no other call waiting. One that says
// something, so that it has the lock, and is silent then, does so for a bounded time.
func TestSilentStreamKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	method := testgrpc.TestService_FullDuplexCall_FullMethodName
	for name, rule := range map[string]grpcmw.Option{
		"metadata":     grpcmw.ForMetadata(method, "x-account"),
		"whole method": grpcmw.ForWholeMethod(method),
		"message": grpcmw.ForMethod(method, func(r *testgrpc.StreamingOutputCallRequest) string {
			return string(r.GetPayload().GetBody())
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{t: t, adapter: "grpc", redis: redistest.Start(t)}
			s.keeper = s.newKeeper(nodeMark + "here")
			const silence = 2 * time.Second
			client := s.streams(grpcmw.Wait(soon), grpcmw.Silence(silence), rule)
			open := func() testgrpc.TestService_FullDuplexCallClient {
				ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(s.t.Context(),
					"x-account", key), soon)
				s.t.Cleanup(cancel)
				stream, err := client.FullDuplexCall(ctx)
				require.NoError(s.t, err)
				_, err = stream.Header() // the handler runs
				require.NoError(s.t, err)
				return stream
			}
			honest := func() {
				stream := open()
				require.NoError(s.t, stream.Send(message()))
				_, err := stream.Recv()
				require.NoError(s.t, err)
				require.NoError(s.t, stream.CloseSend())
				_, err = stream.Recv()
				require.ErrorIs(s.t, err, io.EOF)
			}
			left := open()
			begun := time.Now()
			honest()
			assert.Less(s.t, time.Since(begun), soon/2, "a stream that was opened and left")

			said := open()
			require.NoError(s.t, said.Send(message()))
			_, err := said.Recv()
			require.NoError(s.t, err)
			honest()
			_, err = said.Recv()
			assert.Equal(s.t, codes.DeadlineExceeded, status.Code(err))
			leaksNothing(s.t, key, err.Error())

			require.NoError(s.t, left.Send(message()), "its turn comes whenever it says something")
			_, err = left.Recv()
			require.NoError(s.t, err)
			require.NoError(s.t, left.CloseSend())
			_, err = left.Recv()
			require.ErrorIs(s.t, err, io.EOF)
			s.nothingIsLeft()
		})
	}
}

func message() *testgrpc.StreamingOutputCallRequest {
	return &testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: []byte(key)}}
}

// echo has streams that answer each message by an empty one.
type echo struct {
	testgrpc.UnimplementedTestServiceServer
}

func (echo) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// streams serves echo under locks, and connects to it.
func (s *scene) streams(opts ...grpcmw.Option) testgrpc.TestServiceClient {
	server := grpc.NewServer(
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(s.keeper, opts...)),
	)
	testgrpc.RegisterTestServiceServer(server, echo{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	s.t.Cleanup(func() {
		server.Stop()
		require.NoError(s.t, <-served)
	})
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, conn.Close()) })
	return testgrpc.NewTestServiceClient(conn)
}
