package grpcmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// A retrying interceptor further in opens a second stream when the
// first has finished, and freed the lock.
func TestSecondStreamUnderTheSameLockFails(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	addr, _ := serve(t, &service{duplex: func(duplexServer) error { return errHandler }})
	again := make(chan error, 1)
	twice := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		first, err := streamer(ctx, desc, cc, method, opts...)
		if err == nil {
			assert.Error(t, first.RecvMsg(&pb.StreamingOutputCallResponse{}))
			_, err = streamer(ctx, desc, cc, method, opts...)
		}
		again <- err
		return nil, err
	}
	conn := dial(
		t, addr, grpc.WithChainStreamInterceptor(grpcmw.StreamClientInterceptor(k,
			grpcmw.ForWholeMethod(duplex)), twice),
	)
	_, err := pb.NewTestServiceClient(conn).FullDuplexCall(within(t, soon))
	require.Equal(t, codes.Canceled, verdictOf(t, <-again).code)
	require.Equal(t, codes.Canceled, verdictOf(t, err).code)
	free(t, store, duplex)
}

func TestClientStreamToNowhere(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	conn, err := grpc.NewClient("127.0.0.1:1",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStreamInterceptor(grpcmw.StreamClientInterceptor(k,
			grpcmw.ForMethod(duplex, outputAccount))))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	onFinish, finished := finishes()
	stream, err := pb.NewTestServiceClient(conn).FullDuplexCall(within(t, soon), onFinish)
	require.NoError(t, err)
	err = stream.Send(outputRequest("a1"))
	require.Equal(t, verdict{code: codes.Unavailable}, verdictOf(t, err))
	require.Equal(t, codes.Unavailable, verdictOf(t, <-finished).code)
	require.Empty(t, finished, "once")
	free(t, store, "a1")
}

func TestStreamWaitsForItsLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	release := hold(t, k, "a1")
	client, _ := streamClient(t, k, &service{duplex: echo}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	sent := make(chan error, 1)
	go func() { sent <- stream.Send(outputRequest("a1")) }()
	select {
	case err := <-sent:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	require.NoError(t, <-sent)
	require.NoError(t, drain(stream))
	free(t, store, "a1")
}
