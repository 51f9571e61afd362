package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// streamClient connects to a server of s with a stream interceptor.
func streamClient(
	t *testing.T, k *renewer.Keeper, s *service, opts ...grpcmw.ClientOption,
) (pb.TestServiceClient, *grpc.ClientConn) {
	t.Helper()
	addr, _ := serve(t, s)
	conn := dial(t, addr, grpc.WithStreamInterceptor(grpcmw.StreamClientInterceptor(k, opts...)))
	return pb.NewTestServiceClient(conn), conn
}

// openings counts streams as a server sees them.
func openings(n *atomic.Int64) *service {
	return &service{duplex: func(stream duplexServer) error {
		n.Add(1)
		stream.SetTrailer(metadata.Pairs("x-trailer", "1"))
		return echo(stream)
	}}
}

// finishes is a call option that records how the call finished.
func finishes() (grpc.CallOption, <-chan error) {
	finished := make(chan error, 4)
	return grpc.OnFinish(func(err error) { finished <- err }), finished
}

// awaitFree waits until a lock is free.
func awaitFree(t *testing.T, store *script.Store, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return store.Owner(name) == "" }, soon, tick)
}

func TestClientStreamHoldsItsLockUntilItHasFinished(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]struct {
		rule grpcmw.Option
		lock string
	}{
		"message":  {grpcmw.ForMethod(duplex, outputAccount), "a1"},
		"metadata": {grpcmw.ForMetadata(duplex, "X-Account"), "x-account:a1"},
		"method":   {grpcmw.ForWholeMethod(duplex), duplex},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			var opened atomic.Int64
			client, _ := streamClient(t, k, openings(&opened), key.rule)
			heldAtFinish := make(chan bool, 1)
			stream, err := client.FullDuplexCall(metadata.AppendToOutgoingContext(within(t, soon),
				"x-account", "a1"),
				grpc.OnFinish(func(error) { heldAtFinish <- store.Owner(key.lock) != "" }))
			require.NoError(t, err)
			require.NoError(t, stream.Send(outputRequest("a1")))
			require.NotEmpty(t, store.Owner(key.lock))
			_, err = stream.Recv()
			require.NoError(t, err)
			require.True(t, lockmw.Held(stream.Context(), key.lock))
			require.NoError(t, drain(stream))
			require.Equal(t, []string{"1"}, stream.Trailer().Get("x-trailer"))
			require.True(t, <-heldAtFinish, "the caller's own OnFinish is part of the operation")
			free(t, store, key.lock)
			require.Len(t, store.Calls(script.Release), 1)
			require.EqualValues(t, 1, opened.Load())
			require.Equal(t, io.EOF, stream.RecvMsg(&pb.StreamingOutputCallResponse{}),
				"as without a lock")
		})
	}
}

func TestClientOfTheOtherKindsOfStreams(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client, _ := streamClient(t, k, &service{
		output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) error {
			assert.NotEmpty(t, store.Owner("a1"))
			return stream.Send(&pb.StreamingOutputCallResponse{})
		},
		input: func(stream inputServer) error {
			assert.NotEmpty(t, store.Owner("a2"))
			for {
				if _, err := stream.Recv(); err != nil {
					return stream.SendAndClose(&pb.StreamingInputCallResponse{
						AggregatedPayloadSize: 7,
					})
				}
			}
		},
	}, grpcmw.ForMethod(output, outputAccount), grpcmw.ForMethod(input, inputAccount))

	out, err := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
	require.NoError(t, err)
	_, err = out.Recv()
	require.NoError(t, err)
	require.NoError(t, last(out))
	free(t, store, "a1")

	in, err := client.StreamingInputCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, in.Send(inputRequest("a2")))
	require.NoError(t, in.Send(inputRequest("x")))
	reply, err := in.CloseAndRecv()
	require.NoError(t, err)
	require.EqualValues(t, 7, reply.GetAggregatedPayloadSize())
	free(t, store, "a2")
	require.Len(t, store.Calls(script.Acquire), 2)
}

func TestAbandonedClientStreamFreesItsLockOnce(t *testing.T) {
	t.Parallel()
	for name, abandon := range map[string]func(cancel func(), conn *grpc.ClientConn){
		"cancelled":         func(cancel func(), _ *grpc.ClientConn) { cancel() },
		"connection closed": func(_ func(), conn *grpc.ClientConn) { _ = conn.Close() },
		"both": func(cancel func(), conn *grpc.ClientConn) {
			go cancel()
			_ = conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			var opened atomic.Int64
			client, conn := streamClient(t, k, openings(&opened),
				grpcmw.ForMethod(duplex, outputAccount))
			ctx, cancel := context.WithCancel(within(t, soon))
			defer cancel()
			stream, err := client.FullDuplexCall(ctx)
			require.NoError(t, err)
			require.NoError(t, stream.Send(outputRequest("a1")))
			_, err = stream.Recv()
			require.NoError(t, err)
			abandon(cancel, conn) // and nobody looks at the stream any more
			awaitFree(t, store, "a1")
			require.Len(t, store.Calls(script.Release), 1)
		})
	}
}

func TestRefusedClientStreamIsNeverOpened(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]grpcmw.Option{
		"a1":           grpcmw.ForMethod(duplex, outputAccount),
		"x-account:a1": grpcmw.ForMetadata(duplex, "X-Account"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			defer hold(t, k, name)()
			var opened atomic.Int64
			client, _ := streamClient(t, k, openings(&opened), rule, grpcmw.Refuse())
			onFinish, finished := finishes()
			stream, err := client.FullDuplexCall(metadata.AppendToOutgoingContext(within(t, soon),
				"x-account", "a1"), onFinish)
			require.Equal(t, name == "a1", err == nil,
				"a key that is known leads to an answer at once")
			if err == nil {
				err = stream.Send(outputRequest("a1"))
				_, again := stream.Recv()
				require.Equal(t, err, again)
				require.Equal(t, err, <-finished, "who expects to hear from gRPC does")
				_, headerErr := stream.Header()
				require.Equal(t, err, headerErr)
				require.NoError(t, stream.CloseSend())
				require.Nil(t, stream.Trailer())
				require.NotNil(t, stream.Context())
			}
			require.ErrorIs(t, err, renewer.ErrHeld)
			require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
			require.Zero(t, opened.Load())
		})
	}
}

// Many clients receive on one goroutine and begin to send on another.
func TestReceiveBeforeTheFirstMessageWaitsForIt(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	var opened atomic.Int64
	client, _ := streamClient(t, k, openings(&opened), grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	received := make(chan error, 2)
	for _, receive := range []func() error{
		func() error { _, err := stream.Recv(); return err },
		func() error { _, err := stream.Header(); return err },
	} {
		go func() { received <- receive() }()
	}
	require.Nil(t, stream.Trailer())
	require.NotNil(t, stream.Context())
	require.Zero(t, opened.Load(), "the server has nothing to do before the lock is held")
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.NoError(t, <-received)
	require.NoError(t, <-received)
	require.NoError(t, drain(stream))
	free(t, store, "a1")
}

func TestReceiveOnAStreamThatIsNeverOpenedEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(cancel func(), conn *grpc.ClientConn, stream grpc.ClientStream)
		want verdict
	}{
		"cancelled": {
			func(cancel func(), _ *grpc.ClientConn, _ grpc.ClientStream) { cancel() },
			verdict{code: codes.Canceled},
		},
		"connection closed": {
			func(_ func(), conn *grpc.ClientConn, _ grpc.ClientStream) { _ = conn.Close() },
			verdict{code: codes.Canceled},
		},
		"closed for sending": {
			func(_ func(), _ *grpc.ClientConn, stream grpc.ClientStream) { _ = stream.CloseSend() },
			verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			var opened atomic.Int64
			client, conn := streamClient(t, k, openings(&opened),
				grpcmw.ForMethod(duplex, outputAccount))
			ctx, cancel := context.WithCancel(within(t, soon))
			defer cancel()
			onFinish, finished := finishes()
			stream, err := client.FullDuplexCall(ctx, onFinish)
			require.NoError(t, err)
			received := make(chan error, 1)
			go func() {
				_, err := stream.Recv()
				received <- err
			}()
			c.end(cancel, conn, stream)
			err = <-received
			require.Equal(t, c.want, verdictOf(t, err))
			require.Equal(t, err, <-finished)
			require.Equal(t, err, stream.Send(outputRequest("a1")), "too late")
			require.Zero(t, opened.Load())
			require.Empty(t, store.Calls(script.Acquire))
			require.Empty(t, finished, "once")
		})
	}
}

func TestClientStreamIsCancelledWithItsLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, fast)
	client, _ := streamClient(t, k, &service{duplex: echo}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	_, err = stream.Recv()
	require.NoError(t, err)
	lose(store, "a1")
	_, err = stream.Recv() // nothing comes
	require.ErrorIs(t, err, renewer.ErrLost)
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
	err = stream.Send(outputRequest("a1"))
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
	_, err = stream.Header()
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
	require.Error(t, stream.Context().Err())
	require.NotEmpty(t, store.Owner("a1"), "the holder keeps it")
}

// The lock is found to be gone when it is to be freed, after the stream has come to a good end.
func TestAStreamsGoodEndStandsThoughTheLockWasLost(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		k, store := scripted(t)
		opts := []grpcmw.ClientOption{grpcmw.ForMethod(duplex, outputAccount)}
		if strict {
			opts = append(opts, grpcmw.Strict())
		}
		client, _ := streamClient(t, k, &service{duplex: echo}, opts...)
		stream, err := client.FullDuplexCall(within(t, soon))
		require.NoError(t, err)
		require.NoError(t, stream.Send(outputRequest("a1")))
		lose(store, "a1")
		err = drain(stream)
		if strict {
			require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
				verdictOf(t, err))
			require.NotErrorIs(t, err, io.EOF)
		} else {
			require.NoError(t, err)
		}
	}
}

func TestStreamThatCannotBeOpenedFreesItsLock(t *testing.T) {
	t.Parallel()
	errStreamer := errors.New("no stream today")
	for name, key := range map[string]struct {
		rule grpcmw.Option
		lock string
	}{
		"message": {grpcmw.ForMethod(duplex, outputAccount), "a1"},
		"method":  {grpcmw.ForWholeMethod(duplex), duplex},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			in := grpcmw.StreamClientInterceptor(k, key.rule)
			open := func(streamer grpc.Streamer) error {
				stream, err := in(t.Context(),
					&grpc.StreamDesc{
						ClientStreams: true,
						ServerStreams: true,
					}, nil, duplex, streamer)
				if err == nil {
					err = stream.SendMsg(outputRequest("a1"))
				}
				return err
			}
			require.Equal(t, errStreamer, open(func(
				ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string,
				_ ...grpc.CallOption,
			) (grpc.ClientStream, error) {
				assert.True(t, lockmw.Held(ctx, key.lock))
				return nil, errStreamer
			}))
			free(t, store, key.lock)
			require.PanicsWithValue(t, "boom", func() {
				_ = open(func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string,
					...grpc.CallOption,
				) (grpc.ClientStream, error) {
					panic("boom")
				})
			})
			free(t, store, key.lock)
		})
	}
}

// A key function that panics leaves no caller waiting, on a channel without a connection too.
func TestPanicOfAKeyFunctionEndsItsStream(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		in := grpcmw.StreamClientInterceptor(b.k,
			grpcmw.ForMethod(duplex, func(*pb.StreamingOutputCallRequest) string {
				panic("boom")
			}))
		stream, err := in(t.Context(), &grpc.StreamDesc{}, nil, duplex, nil)
		require.NoError(t, err)
		received := make(chan error, 1)
		go func() { received <- stream.RecvMsg(nil) }()
		synctest.Wait()
		require.PanicsWithValue(t, "boom", func() { _ = stream.SendMsg(outputRequest("a1")) })
		require.Equal(t, codes.Canceled, verdictOf(t, <-received).code)
	})
}

// The server does not read, so that the window is full, and sends nothing, not even a header.
func TestBlockedClientStreamEndsWithItsLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, fast)
	client, _ := streamClient(t, k, &service{duplex: func(stream duplexServer) error {
		<-stream.Context().Done()
		return nil
	}}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	ended := make(chan error, 2)
	go func() {
		_, err := stream.Header()
		ended <- err
	}()
	go func() {
		full := &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, 1<<16)}}
		for {
			if err := stream.Send(full); err != nil {
				ended <- err
				return
			}
		}
	}()
	lose(store, "a1")
	for range 2 {
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
			verdictOf(t, <-ended))
	}
}
