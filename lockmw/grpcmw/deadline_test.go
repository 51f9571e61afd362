package grpcmw_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// inMemory serves s without a network, so that a bubble's clock is that of both sides. It returns
// the client, and ends both by close.
func inMemory(
	t *testing.T, s *service, dialing []grpc.DialOption, opts ...grpc.ServerOption,
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

// The status leaves the server while the caller still listens: at the deadline itself the caller
// would have made up a DeadlineExceeded of its own, without a word about the lock.
func TestCallersHearBeforeTheirDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		client, end := inMemory(t, &service{}, nil, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(
			b.k, grpcmw.ForMethod(unary, account))), grpc.StreamInterceptor(
			grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(output))))
		defer end()
		release := hold(t, b.k, "a1")
		releaseStream := hold(t, b.k, output)
		for name, do := range map[string]func(ctx context.Context) error{
			"unary": func(ctx context.Context) error {
				_, err := client.UnaryCall(ctx, request("a1"))
				return err
			},
			"stream": func(ctx context.Context) error {
				stream, err := client.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begun := time.Now()
			v := verdictOf(t, do(ctx))
			cancel()
			assert.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v, name)
			assert.Positive(t, v.retryIn, name)
			assert.InDelta(t, 750*time.Millisecond, time.Since(begun), float64(time.Millisecond),
				name)
		}
		release()
		releaseStream()

		b.store.Default(script.Acquire, script.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.UnaryCall(ctx, request("a1"))
		assert.Equal(t, grpcmw.ReasonUnavailable, verdictOf(t, err).reason)
	})
}

// A policy that tries again would wait for that until the caller's deadline, and the caller would
// get a DeadlineExceeded for all that it was told. It is told to come back where there is time.
func TestARetryPolicyLeavesTheRefusalToItsCaller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		code    codes.Code
		after   time.Duration
	}{
		"no time for another try": {time.Second, codes.Aborted, 750 * time.Millisecond},
		"time for another try":    {time.Minute, codes.OK, 11 * time.Second},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			client, end := inMemory(t, &service{}, []grpc.DialOption{
				grpc.WithDefaultServiceConfig(patient),
			}, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(b.k,
				grpcmw.ForMethod(unary, account), grpcmw.RetryIn(time.Second))))
			defer end()
			time.AfterFunc(10100*time.Millisecond, hold(t, b.k, "a1"))
			ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
			defer cancel()
			var trailer metadata.MD
			_, err := client.UnaryCall(ctx, request("a1"), grpc.Trailer(&trailer))
			assert.Equal(t, c.code, status.Code(err), name)
			if err != nil {
				assert.Positive(t, verdictOf(t, err).retryIn, name)
				assert.Equal(t, []string{"-1"}, trailer.Get("grpc-retry-pushback-ms"), name)
			}
			assert.InDelta(t, c.after, b.passed(), float64(600*time.Millisecond), name)
			elapse(time.Minute) // until the lock is free
		})
	}
}

// A server that gets to a call after its deadline has no answer for it.
func TestDeadlinesThatHavePassed(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		defer hold(t, b.k, "a1")()
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		err := do(ctx, never)
		require.Zero(t, b.passed())
		require.Equal(t, verdict{code: codes.DeadlineExceeded}, verdictOf(t, err))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, renewer.ErrHeld)
	})
}
