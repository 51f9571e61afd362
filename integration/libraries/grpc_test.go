package libraries_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

const (
	unary  = pb.TestService_UnaryCall_FullMethodName
	output = pb.TestService_StreamingOutputCall_FullMethodName
	duplex = pb.TestService_FullDuplexCall_FullMethodName
)

type (
	outputServer = grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]
	duplexServer = grpc.BidiStreamingServer[pb.StreamingOutputCallRequest,
		pb.StreamingOutputCallResponse]
)

// errHandler is what a handler answers.
var errHandler = status.Error(codes.NotFound, "no such account")

func account(r *pb.SimpleRequest) string { return string(r.GetPayload().GetBody()) }

func outputAccount(r *pb.StreamingOutputCallRequest) string {
	return string(r.GetPayload().GetBody())
}

func request(account string) *pb.SimpleRequest {
	return &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(account)}}
}

func outputRequest(account string) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(account)}}
}

// service is the tests' server, its methods functions that each test sets.
type service struct {
	pb.UnimplementedTestServiceServer

	unary  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	output func(*pb.StreamingOutputCallRequest, outputServer) error
	duplex func(duplexServer) error
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{}, nil
	}
	return s.unary(ctx, r)
}

func (s *service) StreamingOutputCall(r *pb.StreamingOutputCallRequest, stream outputServer) error {
	return s.output(r, stream)
}

func (s *service) FullDuplexCall(stream duplexServer) error { return s.duplex(stream) }

// serve runs a server on loopback, and returns where.
func serve(t *testing.T, s *service, opts ...grpc.ServerOption) (string, *grpc.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-done)
	})
	return listener.Addr().String(), server
}

// dial connects a client, which must be called after serve.
func dial(t *testing.T, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr,
		append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
			opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// scripted returns a keeper on a store that records what it is asked.
func scripted(t *testing.T) (*renewer.Keeper, *script.Store) {
	t.Helper()
	store := script.New()
	k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL, Node: "here"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
	return k, store
}

// hold takes a lock, until the function that it returns is called.
func hold(t *testing.T, k *renewer.Keeper, name string) (release func()) {
	t.Helper()
	lease, err := k.Acquire(t.Context(), renewer.Request{Name: name})
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// reasonOf is why a call was refused.
func reasonOf(t *testing.T, err error) string {
	t.Helper()
	st, ok := status.FromError(err)
	require.True(t, ok, "%v", err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// last is how a stream ended, for its client.
func last[T any](stream interface{ Recv() (T, error) }) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
