package grpcmw_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// echo sends back an empty message for each that it gets.
func echo(stream duplexServer) error {
	for {
		switch _, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// A client that opens a stream and says nothing holds nothing. Its handler
// finds the message by which the lock was taken.
func TestStreamIsLockedByItsFirstMessage(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := streamServer(t, k, &service{duplex: func(stream duplexServer) error {
		assert.True(t, lockmw.Held(stream.Context(), "a1"))
		assert.Positive(t, lockmw.Fence(stream.Context()))
		for _, want := range []string{"a1", "another"} {
			got := outputRequest("left from before")
			assert.NoError(t, stream.RecvMsg(got))
			assert.True(t, proto.Equal(outputRequest(want), got))
		}
		return echo(stream)
	}}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.Empty(t, store.Calls(script.Acquire))
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.NoError(t, stream.Send(outputRequest("another")))
	require.NoError(t, stream.CloseSend())
	require.NoError(t, last(stream))
	free(t, store, "a1")
	require.Len(t, store.Calls(script.Acquire), 1)
}

// By metadata, or as a whole, a stream needs no message for its key. It still
// holds nothing before its client has said something, or that it has nothing to
// say.
func TestStreamWhoseKeyIsKnownBefore(t *testing.T) {
	t.Parallel()
	for want, rule := range map[string]grpcmw.Option{
		"x-account:a1": grpcmw.ForMetadata(duplex, "X-Account"),
		duplex:         grpcmw.ForWholeMethod(duplex),
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			client, end := serve(t, &service{duplex: func(stream duplexServer) error {
				assert.True(t, lockmw.Held(stream.Context(), want))
				return echo(stream)
			}}, nil, grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(b.k, rule)))
			defer end()
			stream, err := client.FullDuplexCall(with(t.Context(), "x-account", "a1"))
			require.NoError(t, err)
			elapse(time.Hour)
			free(t, b.store, want)
			require.NoError(t, stream.CloseSend())
			require.NoError(t, last(stream))
			free(t, b.store, want)
			require.Len(t, b.store.Calls(script.Acquire), 1)
		})
	}
}

func TestStreamThatGetsNoLockDoesNotRun(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	defer hold(t, k, "a1")()
	client := streamServer(t, k, &service{duplex: func(duplexServer) error {
		t.Error("it ran")
		return nil
	}}, grpcmw.ForMethod(duplex, outputAccount), lockmw.Refuse())
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	requireBusy(t, last(stream))
	require.Len(t, stream.Trailer().Get(pushback), 1)

	asked := len(store.Calls(script.Acquire))
	stream, err = client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	require.Equal(t, invalid, verdictOf(t, last(stream)), "without a message there is no key")
	require.Len(t, store.Calls(script.Acquire), asked)
}

// The first message is received into what the method's generated code has, and
// nothing else.
func TestFirstMessageOfAnotherType(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	stream := newStream(t.Context())
	stream.recv = func(m any) error {
		proto.Merge(m.(proto.Message), outputRequest("a1"))
		return nil
	}
	for _, m := range []any{nil, "text", &pb.Empty{}} {
		err := grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount))(nil, stream,
			&grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error { return s.RecvMsg(m) })
		require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
	}
}

// Locks in a chain: two interceptors, one lock each, the outer one's first.
func TestTwoLocksForOneStream(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client, end := serve(t, &service{duplex: func(stream duplexServer) error {
		_, err := stream.Recv()
		assert.NoError(t, err)
		assert.True(t, lockmw.Held(stream.Context(), "a1"))
		lose(store, duplex)
		_, err = stream.Recv()
		assert.ErrorIs(t, err, renewer.ErrLost)
		return err
	}}, nil, grpc.ChainStreamInterceptor(
		grpcmw.StreamServerInterceptor(newKeeper(t, store, fast), grpcmw.ForWholeMethod(duplex)),
		grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount))))
	defer end()
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.Equal(t, lost, verdictOf(t, last(stream)))
	free(t, store, "a1")
}

func TestAStreamsResultStandsThoughTheLockWasLost(t *testing.T) {
	t.Parallel()
	for want, opts := range map[verdict][]grpcmw.Option{{}: nil, lost: {lockmw.Strict()}} {
		inBubble(t, func(t *testing.T, b *bubble) {
			err := serveStream(b.k, newStream(t.Context()), func(s grpc.ServerStream) error {
				lose(b.store, duplex)
				<-s.Context().Done()
				return nil
			}, opts...)
			require.Equal(t, want, verdictOf(t, err))
		})
	}
}

// A goroutine of the handler outlives it.
func TestNothingPassesAfterTheHandlersReturn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newStream(t.Context())
		stream.send = func(any) error { t.Error("sent"); return nil }
		stream.recv = func(any) error { t.Error("received"); return nil }
		var left grpc.ServerStream
		require.NoError(t, serveStream(b.k, stream, func(s grpc.ServerStream) error {
			left = s
			return nil
		}))
		require.Equal(t, codes.Canceled, verdictOf(t, left.SendMsg(nil)).code)
		require.Equal(t, codes.Canceled, verdictOf(t, left.RecvMsg(nil)).code)
	})
}

func TestStreamWithoutARuleIsPassedAsItIs(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	in := grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
	stream := newStream(t.Context())
	defer stream.end()
	err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: output},
		func(_ any, got grpc.ServerStream) error {
			assert.Same(t, stream, got)
			return nil
		})
	require.NoError(t, err)
}
