package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

type (
	duplexServer = grpc.BidiStreamingServer[pb.StreamingOutputCallRequest,
		pb.StreamingOutputCallResponse]
	outputServer = grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]
	inputServer  = grpc.ClientStreamingServer[pb.StreamingInputCallRequest,
		pb.StreamingInputCallResponse]
)

func outputAccount(r *pb.StreamingOutputCallRequest) string {
	return string(r.GetPayload().GetBody())
}

func inputAccount(r *pb.StreamingInputCallRequest) string {
	return string(r.GetPayload().GetBody())
}

func outputRequest(account string) *pb.StreamingOutputCallRequest {
	return &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(account)}}
}

func inputRequest(account string) *pb.StreamingInputCallRequest {
	return &pb.StreamingInputCallRequest{Payload: &pb.Payload{Body: []byte(account)}}
}

// streamServer serves s with a stream interceptor, and connects to it.
func streamServer(
	t *testing.T, k *renewer.Keeper, s *service, opts ...grpcmw.Option,
) pb.TestServiceClient {
	t.Helper()
	addr, _ := serve(t, s, grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(k, opts...)))
	return pb.NewTestServiceClient(dial(t, addr))
}

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

// drain ends the client's side of a stream and returns its status.
func drain(
	stream grpc.BidiStreamingClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse],
) error {
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return last(stream)
}

func last[T any](stream interface{ Recv() (T, error) }) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestStreamIsLockedByItsFirstMessage(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	early := make(chan bool, 1)
	client := streamServer(t, k, &service{duplex: func(stream duplexServer) error {
		before := stream.Context()
		early <- lockmw.Fence(before) == 0 && len(store.Calls(script.Acquire)) == 0
		_, err := stream.Recv()
		assert.NoError(t, err)
		assert.True(t, lockmw.Held(stream.Context(), "a1"))
		assert.Positive(t, lockmw.Fence(stream.Context()))
		assert.NoError(t, before.Err())
		assert.True(t, lockmw.Held(before, "a1"), "also in a context taken before")
		assert.Equal(t, lockmw.Fence(stream.Context()), lockmw.Fence(before))
		return echo(stream)
	}}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.True(t, <-early)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.NoError(t, stream.Send(outputRequest("another")))
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, drain(stream))
	free(t, store, "a1")
	require.Len(t, store.Calls(script.Acquire), 1)
}

func TestServerStreamingHandlerRunsUnderItsLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := streamServer(t, k,
		&service{output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) error {
			assert.True(t, lockmw.Held(stream.Context(), "a1"))
			return stream.Send(&pb.StreamingOutputCallResponse{})
		}}, grpcmw.ForMethod(output, outputAccount))
	stream, err := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	require.NoError(t, last(stream))
	free(t, store, "a1")
}

// Whatever the handler makes of the refusal, the caller hears of that.
func TestRefusedStreamEndsWithTheRefusal(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("receiving failed")
	passedOn := make(chan error, 1)
	for name, ending := range map[string]func(stream duplexServer, err error) error{
		"passed on": func(_ duplexServer, err error) error {
			passedOn <- err
			return err
		},
		"swallowed": func(duplexServer, error) error { return nil },
		"replaced":  func(duplexServer, error) error { return errOwn },
		"ignored": func(stream duplexServer, err error) error {
			_, again := stream.Recv()
			assert.Equal(t, err, again)
			assert.Equal(t, err, stream.Send(&pb.StreamingOutputCallResponse{}))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			defer hold(t, k, "a1")()
			seen := make(chan error, 1)
			note := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
				handler grpc.StreamHandler,
			) error {
				err := handler(srv, stream)
				seen <- err
				return err
			}
			addr, _ := serve(t, &service{duplex: func(stream duplexServer) error {
				_, err := stream.Recv()
				assert.ErrorIs(t, err, renewer.ErrHeld)
				return ending(stream, err)
			}}, grpc.ChainStreamInterceptor(
				note, grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount),
					grpcmw.Refuse()),
			))
			client := pb.NewTestServiceClient(dial(t, addr))
			stream, err := client.FullDuplexCall(within(t, soon))
			require.NoError(t, err)
			require.NoError(t, stream.Send(outputRequest("a1")))
			v := verdictOf(t, last(stream))
			require.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v)
			require.Positive(t, v.retryIn)
			require.Len(t, stream.Trailer().Get("grpc-retry-pushback-ms"), 1)
			outer := <-seen
			require.ErrorIs(t, outer, renewer.ErrHeld)
			require.Equal(t, name == "replaced", errors.Is(outer, errOwn))
			if name == "passed on" {
				require.Same(t, <-passedOn, outer)
			}
		})
	}
}

func TestSendBeforeTheFirstMessageFailsRatherThanRunUnlocked(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := streamServer(t, k, &service{duplex: func(stream duplexServer) error {
		err := stream.Send(&pb.StreamingOutputCallResponse{})
		assert.ErrorIs(t, err, renewer.ErrConfig)
		_, again := stream.Recv()
		assert.Equal(t, err, again)
		return nil
	}}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	err = last(stream)
	require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
	require.ErrorContains(t, err, "sends before it has received the first message")
	require.Empty(t, store.Calls(script.Acquire))
}

func TestStreamWithoutAMessageHasNoKey(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := streamServer(t, k, &service{input: func(stream inputServer) error {
		for {
			if _, err := stream.Recv(); err != nil {
				// as if that had been the end of the stream
				return stream.SendAndClose(&pb.StreamingInputCallResponse{})
			}
		}
	}}, grpcmw.ForMethod(input, inputAccount))
	stream, err := client.StreamingInputCall(within(t, soon))
	require.NoError(t, err)
	_, err = stream.CloseAndRecv()
	require.Equal(t, verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
		verdictOf(t, err))
	require.Empty(t, store.Calls(script.Acquire))
}

// lose takes a lock away from its holder.
func lose(store *script.Store, name string) {
	store.Overwrite(name, renewer.Holder{Node: "thief"}, soon)
}

func TestLostStreamFailsThoughItsHandlerKeptAnOlderContext(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, fast)
	done := make(chan error, 3)
	client := streamServer(t, k, &service{duplex: func(stream duplexServer) error {
		old := stream.Context()
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
		_, err := stream.Recv() // nothing comes
		done <- err
		<-old.Done()
		done <- context.Cause(old)
		done <- stream.Send(&pb.StreamingOutputCallResponse{})
		return nil
	}}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	_, err = stream.Recv()
	require.NoError(t, err)
	lose(store, "a1")
	for range 3 {
		require.ErrorIs(t, <-done, renewer.ErrLost)
	}
	err = last(stream)
	require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
	require.Equal(t, []string{"-1"}, stream.Trailer().Get("grpc-retry-pushback-ms"))
}

// The client does not read, so that the window is full. Without us
// the handler would wait for it for ever.
func TestSendThatWaitsForTheClientEndsWithTheLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t, fast)
	var sent atomic.Int64
	returned := make(chan error, 1)
	client := streamServer(t, k,
		&service{output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) (err error) {
			defer func() { returned <- err }()
			for {
				sent.Add(1)
				if err := stream.Send(&pb.StreamingOutputCallResponse{
					Payload: &pb.Payload{Body: make([]byte, 1<<16)},
				}); err != nil {
					return err
				}
			}
		}}, grpcmw.ForMethod(output, outputAccount))
	stream, err := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
	require.NoError(t, err)
	begun := int64(0)
	require.Eventually(t, func() bool { // nothing is sent for a while
		before := begun
		begun = sent.Load()
		return begun > 1 && begun == before
	}, soon, 200*time.Millisecond)
	lose(store, "a1")
	require.ErrorIs(t, <-returned, renewer.ErrLost)
	v := verdictOf(t, last(stream))
	require.Equal(t, grpcmw.ReasonLost, v.reason)
}

func TestAHandlersResultStandsThoughTheLockWasLost(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		k, store := scripted(t, fast)
		opts := []grpcmw.Option{grpcmw.ForMethod(output, outputAccount)}
		if strict {
			opts = append(opts, grpcmw.Strict())
		}
		client := streamServer(t, k,
			&service{output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) error {
				lose(store, "a1")
				<-stream.Context().Done()
				return nil
			}}, opts...)
		stream, err := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
		require.NoError(t, err)
		err = last(stream)
		if strict {
			require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
				verdictOf(t, err))
		} else {
			require.NoError(t, err)
		}
	}
}

// A handler's goroutine may come to the first message when the
// handler has returned. Nobody would free what it takes.
func TestNoLockAfterTheHandlersReturn(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	release := hold(t, newKeeper(t, store), "a1") // another process, so that the store is asked
	received := make(chan error, 2)
	client := streamServer(t, k, &service{duplex: func(stream duplexServer) error {
		go func() {
			_, err := stream.Recv()
			received <- err
			received <- stream.Send(&pb.StreamingOutputCallResponse{})
		}()
		require.Eventually(t, func() bool {
			return len(store.Calls(script.Acquire)) > 1
		}, soon, tick)
		return nil
	}}, grpcmw.ForMethod(duplex, outputAccount))
	stream, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, stream.Send(outputRequest("a1")))
	require.NoError(t, last(stream))
	require.Equal(t, codes.Canceled, verdictOf(t, <-received).code)
	require.Equal(t, codes.Canceled, verdictOf(t, <-received).code)
	release()
	free(t, store, "a1")
}

func TestStreamWithoutARuleIsPassedAsItIs(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	in := grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
	stream := &fakeServerStream{ctx: t.Context()}
	err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: output},
		func(_ any, got grpc.ServerStream) error {
			assert.Same(t, stream, got)
			return nil
		})
	require.NoError(t, err)
}
