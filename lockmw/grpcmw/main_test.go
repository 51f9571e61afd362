package grpcmw_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon = 20 * time.Second // bounds what takes no time
	tick = 5 * time.Millisecond

	unary  = pb.TestService_UnaryCall_FullMethodName
	output = pb.TestService_StreamingOutputCall_FullMethodName
	input  = pb.TestService_StreamingInputCall_FullMethodName
	duplex = pb.TestService_FullDuplexCall_FullMethodName
)

// account is the key that the tests' requests carry.
func account(r *pb.SimpleRequest) string { return string(r.GetPayload().GetBody()) }

func request(account string) *pb.SimpleRequest {
	return &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(account)}}
}

// service is the tests' server, its methods functions that each test sets.
type service struct {
	pb.UnimplementedTestServiceServer

	unary  func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	output func(*pb.StreamingOutputCallRequest,
		grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error
	input func(grpc.ClientStreamingServer[pb.StreamingInputCallRequest,
		pb.StreamingInputCallResponse]) error
	duplex func(grpc.BidiStreamingServer[pb.StreamingOutputCallRequest,
		pb.StreamingOutputCallResponse]) error
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{}, nil
	}
	return s.unary(ctx, r)
}

func (s *service) StreamingOutputCall(
	r *pb.StreamingOutputCallRequest,
	stream grpc.ServerStreamingServer[pb.StreamingOutputCallResponse],
) error {
	return s.output(r, stream)
}

func (s *service) StreamingInputCall(
	stream grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse],
) error {
	return s.input(stream)
}

func (s *service) FullDuplexCall(
	stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse],
) error {
	return s.duplex(stream)
}

// serve runs a server on loopback, beside the health and reflection services, and returns where.
func serve(t testing.TB, s *service, opts ...grpc.ServerOption) (string, *grpc.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(server, s)
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; !errors.Is(err, grpc.ErrServerStopped) { // before it served
			require.NoError(t, err)
		}
	})
	return listener.Addr().String(), server
}

// dial connects a client, which must be called after serve.
func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr,
		append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
			opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// unaryServer serves s with a unary interceptor, and connects to it.
func unaryServer(
	t *testing.T, k *renewer.Keeper, s *service, opts ...grpcmw.Option,
) pb.TestServiceClient {
	t.Helper()
	addr, _ := serve(t, s, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, opts...)))
	return pb.NewTestServiceClient(dial(t, addr))
}

// scripted returns a keeper on a store that does as told and records what it is asked.
func scripted(t *testing.T, edit ...func(*renewer.Config)) (*renewer.Keeper, *script.Store) {
	t.Helper()
	store := script.New()
	return newKeeper(t, store, edit...), store
}

func newKeeper(t *testing.T, store renewer.Store, edit ...func(*renewer.Config)) *renewer.Keeper {
	t.Helper()
	cfg := renewer.Config{TTL: renewer.DefaultTTL, Node: "here"}
	for _, f := range edit {
		f(&cfg)
	}
	k, err := renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
		defer cancel()
		_ = k.Shutdown(ctx)
	})
	return k
}

// fast makes a keeper whose heartbeats come every few milliseconds,
// so that a loss is heard of soon.
func fast(cfg *renewer.Config) { cfg.Heartbeat = 20 * time.Millisecond }

// hold takes a lock, until the function that it returns is called.
func hold(t *testing.T, k *renewer.Keeper, name string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := k.Acquire(ctx, name, renewer.Operation("elsewhere"))
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// free asserts that a lock is free.
func free(t *testing.T, s *script.Store, name string) {
	t.Helper()
	require.Empty(t, s.Owner(name), "the lock on %s is still held", name)
}

// awaitFree waits until a lock is free.
func awaitFree(t *testing.T, store *script.Store, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return store.Owner(name) == "" }, soon, tick)
}

// within bounds a call that takes no time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// verdict is what a status says to a program.
type verdict struct {
	code    codes.Code
	reason  string
	retryIn time.Duration
}

func verdictOf(t *testing.T, err error) verdict {
	t.Helper()
	st, ok := status.FromError(err)
	require.True(t, ok, "%v", err)
	v := verdict{code: st.Code()}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			require.Equal(t, grpcmw.Domain, d.GetDomain())
			v.reason = d.GetReason()
		case *errdetails.RetryInfo:
			v.retryIn = d.GetRetryDelay().AsDuration()
		default:
			require.Fail(t, "unexpected detail", "%v", d)
		}
	}
	return v
}
