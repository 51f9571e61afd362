package contention_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// bank does the work when it is called.
type bank struct {
	testgrpc.UnimplementedTestServiceServer
	do work
}

func (b *bank) UnaryCall(
	ctx context.Context, _ *testgrpc.SimpleRequest,
) (*testgrpc.SimpleResponse, error) {
	if err := b.do(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		if ofALock(err) {
			return nil, err // as it is: what it says must not leave the process
		}
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return &testgrpc.SimpleResponse{}, nil
}

func openGRPC(t *testing.T, k *renewer.Keeper, wait time.Duration, do work) caller {
	var policy grpcmw.Option
	switch wait {
	case 0:
		policy = lockmw.Refuse()
	case newestWins:
		policy = lockmw.Replace()
	case newestWaits:
		policy = lockmw.Latest()
	default:
		policy = lockmw.Wait(wait)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(recoverCall,
		grpcmw.UnaryServerInterceptor(k, policy,
			grpcmw.ForMethod(testgrpc.TestService_UnaryCall_FullMethodName,
				func(r *testgrpc.SimpleRequest) lockmw.Set {
					return lockOf(string(r.GetPayload().GetBody()))
				}))))
	testgrpc.RegisterTestServiceServer(server, &bank{do: do})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	client := testgrpc.NewTestServiceClient(conn)
	return func(ctx context.Context, key string) (outcome, string) {
		var trailer metadata.MD
		_, err := client.UnaryCall(ctx,
			&testgrpc.SimpleRequest{
				Payload: &testgrpc.Payload{Body: []byte(key)},
			}, grpc.Trailer(&trailer))
		s := status.Convert(err)
		leaksNothing(t, key, s.String())
		return outcomeOfCall(t, s, trailer), s.String()
	}
}

// recoverCall does what recovery interceptors do.
func recoverCall(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = status.Error(codes.Internal, "panicked")
		}
	}()
	return handler(ctx, req)
}

func outcomeOfCall(t *testing.T, s *status.Status, trailer metadata.MD) outcome {
	reason, again := "", false
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		case *errdetails.RetryInfo:
			again = d.GetRetryDelay().AsDuration() > 0
		}
	}
	if again {
		assert.Len(t, trailer.Get("grpc-retry-pushback-ms"), 1)
	}
	switch {
	case s.Code() == codes.OK:
		return done
	case s.Code() == codes.Aborted && reason == "LOCK_BUSY" && again:
		return busy
	case s.Code() == codes.ResourceExhausted && reason == "LOCK_BUSY" && again:
		return full
	case s.Code() == codes.Unavailable && reason == "LOCK_UNAVAILABLE" && again:
		return unavailable
	case s.Code() == codes.Aborted && reason == "LOCK_LOST" && !again:
		return lost
	case s.Code() == codes.Aborted && reason == "REPLACED" && !again:
		assert.Equal(t, []string{"-1"}, trailer.Get("grpc-retry-pushback-ms"))
		return replaced
	case s.Code() == codes.InvalidArgument && reason == "LOCK_KEY_INVALID" && !again:
		return badKey
	case s.Code() == codes.Internal && s.Message() == "panicked":
		return broken
	case s.Code() == codes.Canceled:
		return cancelled
	case s.Code() == codes.FailedPrecondition:
		return failed
	default:
		return ""
	}
}
