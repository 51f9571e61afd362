package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon = 20 * time.Second // bounds what takes no time
	tick = 5 * time.Millisecond

	pushback = "grpc-retry-pushback-ms"

	unary  = pb.TestService_UnaryCall_FullMethodName
	output = pb.TestService_StreamingOutputCall_FullMethodName
	duplex = pb.TestService_FullDuplexCall_FullMethodName
)

type (
	unaryHandler = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error)
	duplexServer = grpc.BidiStreamingServer[pb.StreamingOutputCallRequest,
		pb.StreamingOutputCallResponse]
	outputServer = grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]
)

// account is the key that the tests' requests carry, outputAccount that of
// streams.
func account(r *pb.SimpleRequest) string { return string(r.GetPayload().GetBody()) }

func outputAccount(r *pb.StreamingOutputCallRequest) string {
	return string(r.GetPayload().GetBody())
}

func payload(account string) *pb.Payload { return &pb.Payload{Body: []byte(account)} }

func request(account string) *pb.SimpleRequest { return &pb.SimpleRequest{Payload: payload(account)} }

func outputRequest(account string) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: payload(account)}
}

// service is the tests' server, its methods functions that each test sets.
type service struct {
	pb.UnimplementedTestServiceServer

	unary  unaryHandler
	output func(*pb.StreamingOutputCallRequest, outputServer) error
	duplex func(duplexServer) error
}

func (s *service) UnaryCall(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{}, nil
	}
	return s.unary(ctx, r)
}

func (s *service) StreamingOutputCall(
	r *pb.StreamingOutputCallRequest, stream outputServer,
) error {
	return s.output(r, stream)
}

func (s *service) FullDuplexCall(stream duplexServer) error { return s.duplex(stream) }

// serve runs a server in memory, so that in a bubble its clock is that of both
// sides. It returns a client, and what ends both.
func serve(
	t testing.TB, s *service, dialing []grpc.DialOption, opts ...grpc.ServerOption,
) (client pb.TestServiceClient, end func()) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(server, s)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///memory", append(dialing,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))...)
	require.NoError(t, err)
	return pb.NewTestServiceClient(conn), func() {
		assert.NoError(t, conn.Close())
		server.Stop()
		assert.NoError(t, <-done)
	}
}

// unaryServer serves s with a unary interceptor, until the test has ended.
func unaryServer(
	t *testing.T, k *renewer.Keeper, s *service, opts ...grpcmw.Option,
) pb.TestServiceClient {
	t.Helper()
	client, end := serve(t, s, nil,
		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, opts...)))
	t.Cleanup(end)
	return client
}

// streamServer serves s with a stream interceptor, until the test has ended.
func streamServer(
	t *testing.T, k *renewer.Keeper, s *service, opts ...grpcmw.Option,
) pb.TestServiceClient {
	t.Helper()
	client, end := serve(t, s, nil,
		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, opts...)))
	t.Cleanup(end)
	return client
}

// last is how a stream ends.
func last[T any](stream interface{ Recv() (T, error) }) error {
	for {
		if _, err := stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// scripted returns a keeper on a store that does as told and records what it is
// asked.
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

// bubble is a keeper and its store, in virtual time.
type bubble struct {
	k     *renewer.Keeper
	store *script.Store
	begun time.Time
}

// inBubble also makes sure that nothing is held in the end.
func inBubble(t *testing.T, test func(t *testing.T, b *bubble), edit ...func(*renewer.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k, store := scripted(t, edit...)
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Hour)
			defer cancel()
			assert.NoError(t, k.Shutdown(ctx), "a lock is still held")
			synctest.Wait()
		}()
		test(t, &bubble{k, store, time.Now()})
	})
}

func (b *bubble) passed() time.Duration { return time.Since(b.begun) }

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

// call is one unary call without a transport.
type call func(ctx context.Context, handler func(context.Context) error) error

// caller makes calls under the lock on a1.
func caller(k *renewer.Keeper, opts ...grpcmw.Option) call {
	in := grpcmw.UnaryServerInterceptor(k,
		append([]grpcmw.Option{grpcmw.ForMethod(unary, account)}, opts...)...)
	return func(ctx context.Context, handler func(context.Context) error) error {
		_, err := in(ctx, request("a1"), &grpc.UnaryServerInfo{FullMethod: unary},
			func(ctx context.Context, _ any) (any, error) { return nil, handler(ctx) })
		return err
	}
}

// calling runs a test in a bubble, with a way to make calls.
func calling(t *testing.T, test func(t *testing.T, b *bubble, do call), opts ...grpcmw.Option) {
	t.Helper()
	inBubble(t, func(t *testing.T, b *bubble) { test(t, b, caller(b.k, opts...)) })
}

func never(context.Context) error { return errors.New("it ran") }

func succeed(context.Context) error { return nil }

// fakeStream is a server's stream without a transport: it takes everything and
// waits for messages until its end, which gRPC brings about when the handler
// has returned.
type fakeStream struct {
	grpc.ServerStream

	ctx  context.Context
	recv func(m any) error
	send func(m any) error
	end  context.CancelFunc
}

// newStream returns a stream that ends with ctx, or, as an interceptor further
// out may have it, with something that its context does not tell.
func newStream(ctx context.Context, told ...context.Context) *fakeStream {
	ctx, end := context.WithCancel(ctx)
	return &fakeStream{
		ctx:  append(told, ctx)[0],
		recv: func(any) error { <-ctx.Done(); return ctx.Err() },
		send: func(any) error { return nil },
		end:  end,
	}
}

func (s *fakeStream) Context() context.Context { return s.ctx }
func (s *fakeStream) RecvMsg(m any) error      { return s.recv(m) }
func (s *fakeStream) SendMsg(m any) error      { return s.send(m) }

// serveStream runs a handler of a streaming method, locked as a whole, on a
// stream whose first message has come.
func serveStream(
	k *renewer.Keeper, stream *fakeStream, handler func(grpc.ServerStream) error,
	opts ...grpcmw.Option,
) error {
	defer stream.end()
	recv := stream.recv
	stream.recv = func(any) error { return nil }
	in := grpcmw.StreamServerInterceptor(k, append(opts, grpcmw.ForWholeMethod(duplex))...)
	return in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
		func(_ any, s grpc.ServerStream) error {
			if err := s.RecvMsg(new(pb.StreamingOutputCallRequest)); err != nil {
				return err
			}
			stream.recv = recv
			return handler(s)
		})
}

// hold takes a lock, until the function that it returns is called.
func hold(t *testing.T, k *renewer.Keeper, name string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := k.Acquire(ctx, renewer.Request{Name: name, Operation: "elsewhere"})
	require.NoError(t, err)
	return func() { require.NoError(t, lease.Release(t.Context())) }
}

// lose takes a lock away from its holder.
func lose(store *script.Store, name string) {
	store.Overwrite(name, contract.Holder{Node: "thief"}, soon)
}

// free asserts that a lock is free.
func free(t *testing.T, s *script.Store, name string) {
	t.Helper()
	require.Empty(t, s.Owner(name), "the lock on %s is still held", name)
}

// within bounds a call that takes no time.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// with is a client's or, by incoming, a server's call with metadata.
func with(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

func incoming(ctx context.Context, pairs ...string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs(pairs...))
}

// verdict is what a status says to a program.
type verdict struct {
	code    codes.Code
	reason  string
	retryIn time.Duration
}

var (
	lost    = verdict{code: codes.Aborted, reason: "LOCK_LOST"}
	invalid = verdict{code: codes.InvalidArgument, reason: "LOCK_KEY_INVALID"}
)

func verdictOf(t *testing.T, err error) verdict {
	t.Helper()
	st, ok := status.FromError(err)
	require.True(t, ok, "%v", err)
	v := verdict{code: st.Code()}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			require.Equal(t, "lockbeat", d.GetDomain())
			v.reason = d.GetReason()
		case *errdetails.RetryInfo:
			v.retryIn = d.GetRetryDelay().AsDuration()
		default:
			require.Fail(t, "unexpected detail", "%v", d)
		}
	}
	return v
}

// requireRefused asserts that a call was refused, and told when to come back.
func requireRefused(t *testing.T, code codes.Code, reason string, err error) {
	t.Helper()
	v := verdictOf(t, err)
	require.Equal(t, verdict{code, reason, v.retryIn}, v)
	require.Positive(t, v.retryIn)
}

func requireBusy(t *testing.T, err error) {
	t.Helper()
	requireRefused(t, codes.Aborted, "LOCK_BUSY", err)
}

// faultLog is an observer that keeps the faults that it is told of.
type faultLog struct {
	renewer.NopObserver

	mu     sync.Mutex
	faults []renewer.Fault
}

func (o *faultLog) Fault(f renewer.Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, f)
}
