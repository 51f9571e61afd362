package grpcmw_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// patient is what a client configures to be served when the lock is
// free again. Its own backoff is longer than any test.
const patient = `{"methodConfig": [{"name": [{"service": "grpc.testing.TestService"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "60s", "maxBackoff": "60s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]}}]}`

// tries records when a server was tried, and by what trailer it put a client off.
type tries struct {
	n       atomic.Int64
	refused func()
}

func (r *tries) unary(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	reply, err := handler(ctx, req)
	if r.n.Add(1) == 1 && err != nil && r.refused != nil {
		r.refused()
	}
	return reply, err
}

func (r *tries) stream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	err := handler(srv, stream)
	if r.n.Add(1) == 1 && err != nil && r.refused != nil {
		r.refused()
	}
	return err
}

func TestRetryPolicyComesBackWhenItIsTold(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	var begun time.Time
	release := hold(t, k, "a1")
	r := &tries{refused: func() { begun = time.Now(); release() }}
	ours := grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account),
		grpcmw.Refuse(), grpcmw.RetryIn(200*time.Millisecond))
	addr, _ := serve(t, &service{}, grpc.ChainUnaryInterceptor(r.unary, ours))
	client := pb.NewTestServiceClient(dial(t, addr, grpc.WithDefaultServiceConfig(patient)))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begun), 100*time.Millisecond, "half of RetryIn")
	require.EqualValues(t, 2, r.n.Load())
}

func TestRetryPolicyRetriesAStream(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	release := hold(t, k, "a1")
	r := &tries{refused: release}
	ours := grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(output, outputAccount),
		grpcmw.Refuse(), grpcmw.RetryIn(10*time.Millisecond))
	addr, _ := serve(t, &service{output: func(_ *pb.StreamingOutputCallRequest,
		stream outputServer,
	) error {
		return stream.Send(&pb.StreamingOutputCallResponse{})
	}}, grpc.ChainStreamInterceptor(r.stream, ours))
	stream, err := pb.NewTestServiceClient(dial(t, addr, grpc.WithDefaultServiceConfig(patient))).
		StreamingOutputCall(within(t, soon), outputRequest("a1"))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, last(stream))
	require.EqualValues(t, 2, r.n.Load())
}

// The codes are the same. What has run, perhaps half, is not run again for that.
func TestRetryPolicyDoesNotRepeatALostCall(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, fast)
	var runs atomic.Int64
	addr, _ := serve(t, &service{unary: func(ctx context.Context,
		_ *pb.SimpleRequest,
	) (*pb.SimpleResponse, error) {
		if runs.Add(1) == 1 {
			lose(store, "a1")
			<-ctx.Done()
			store.Delete("a1")
		}
		return nil, context.Cause(ctx)
	}}, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))))
	client := pb.NewTestServiceClient(dial(t, addr, grpc.WithDefaultServiceConfig(patient)))
	var trailer metadata.MD
	_, err := client.UnaryCall(within(t, soon), request("a1"), grpc.Trailer(&trailer))
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, []string{"-1"}, trailer.Get("grpc-retry-pushback-ms"))
}

func TestTrailerAndRetryInfoSayTheSame(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	defer hold(t, k, "a1")()
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account), grpcmw.Refuse())
	for range 5 {
		var trailer metadata.MD
		_, err := client.UnaryCall(within(t, soon), request("a1"), grpc.Trailer(&trailer))
		require.Len(t, trailer.Get("grpc-retry-pushback-ms"), 1)
		ms, convErr := strconv.ParseInt(trailer.Get("grpc-retry-pushback-ms")[0], 10, 64)
		require.NoError(t, convErr)
		assert.Equal(t, verdictOf(t, err).retryIn.Milliseconds(), ms)

		// The words say it too, for people: in milliseconds.
		_, words, _ := strings.Cut(status.Convert(err).Message(), "try again in ")
		inWords, parseErr := time.ParseDuration(words)
		require.NoError(t, parseErr)
		assert.Equal(t, verdictOf(t, err).retryIn.Round(time.Millisecond), inWords)
	}
}

// A handler that was refused elsewhere, and says so, has run: its
// caller is not told to come back as if it hadn't.
func TestRefusalOfAnotherCallIsPassedOnWithoutOurTrailer(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	defer hold(t, k, "a1")()
	elsewhere := caller(k, grpcmw.Refuse())
	client := unaryServer(t, k,
		&service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			err := elsewhere(t.Context(), never)
			assert.ErrorIs(t, err, renewer.ErrHeld)
			return nil, err
		}}, grpcmw.ForMethod(unary, account))
	var trailer metadata.MD
	_, err := client.UnaryCall(within(t, soon), request("b1"), grpc.Trailer(&trailer))
	require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
	require.Empty(t, trailer.Get("grpc-retry-pushback-ms"))
}

// A trailer of 0 would have a client come back at once.
func TestPushbackIsNeverNothing(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	defer hold(t, k, "a1")()
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account), grpcmw.Refuse(),
		grpcmw.RetryIn(1))
	var trailer metadata.MD
	_, err := client.UnaryCall(within(t, soon), request("a1"), grpc.Trailer(&trailer))
	require.Error(t, err)
	require.Equal(t, []string{"1"}, trailer.Get("grpc-retry-pushback-ms"))
}
