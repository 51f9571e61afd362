package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// keyedBefore are the rules whose key is known before the first message, by the lock's name.
func keyedBefore(method string) map[string]grpcmw.Option {
	return map[string]grpcmw.Option{
		"x-account:a1": grpcmw.ForMetadata(method, "X-Account"),
		method:         grpcmw.ForWholeMethod(method),
	}
}

func ofAccount(ctx context.Context, account string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-account", account)
}

// A client that opens a stream and says nothing must not keep others from the lock.
func TestStreamThatIsOpenedAndLeftHoldsNothing(t *testing.T) {
	t.Parallel()
	for want, rule := range keyedBefore(duplex) {
		k, store := scripted(t)
		client := streamServer(t, k, &service{duplex: func(stream duplexServer) error {
			if err := stream.SendHeader(metadata.Pairs("handler", "runs")); err != nil {
				return err
			}
			return echo(stream)
		}}, rule, grpcmw.Refuse())
		left, err := client.FullDuplexCall(ofAccount(within(t, soon), "a1"))
		require.NoError(t, err)
		_, err = left.Header()
		require.NoError(t, err)
		free(t, store, want)

		other, err := client.FullDuplexCall(ofAccount(within(t, soon), "a1"))
		require.NoError(t, err)
		require.NoError(t, other.Send(outputRequest("")))
		_, err = other.Recv()
		require.NoError(t, err)
		require.NotEmpty(t, store.Owner(want))

		require.NoError(t, left.Send(outputRequest("")))
		require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, last(left)).reason,
			"now it needs the lock")
		require.NoError(t, drain(other))
		free(t, store, want)
	}
}

// Whatever the handler does first with its client is under the lock.
func TestStreamIsLockedByWhatComesFirst(t *testing.T) {
	t.Parallel()
	reply := &pb.StreamingInputCallResponse{}
	for name, first := range map[string]func(stream inputServer) error{
		"a message": func(stream inputServer) error {
			_, err := stream.Recv()
			return err
		},
		"the end of the client's side": func(stream inputServer) error {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				return errors.New("that was not the end")
			}
			return nil
		},
		"an answer": func(stream inputServer) error { return stream.SendMsg(reply) },
	} {
		for want, rule := range keyedBefore(input) {
			k, store := scripted(t)
			client := streamServer(t, k, &service{input: func(stream inputServer) error {
				before := stream.Context()
				assert.False(t, lockmw.Held(before, want))
				assert.NoError(t, first(stream), name)
				assert.True(t, lockmw.Held(stream.Context(), want))
				assert.True(t, lockmw.Held(before, want),
					"an interceptor further in may have kept it")
				assert.Positive(t, lockmw.Fence(before))
				_, err := lockmw.Do(before, k, want, func(context.Context) (any, error) {
					return nil, nil
				}, lockmw.Refuse())
				assert.NoError(t, err, "the same call chain")
				if name == "an answer" {
					return nil
				}
				return stream.SendAndClose(reply)
			}}, rule)
			stream, err := client.StreamingInputCall(ofAccount(within(t, soon), "a1"))
			require.NoError(t, err)
			if name == "a message" {
				require.NoError(t, stream.Send(inputRequest("")))
			}
			_, err = stream.CloseAndRecv()
			require.NoError(t, err)
			free(t, store, want)
			require.Len(t, store.Calls(script.Acquire), 1)
			require.Len(t, store.Calls(script.Release), 1)
		}
	}
}

// Nothing of a call that can't have a lock runs, although its key is asked for only later.
func TestStreamOfNoUsableKeyDoesNotRun(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := streamServer(t, k, &service{duplex: func(duplexServer) error {
		t.Error("it ran")
		return nil
	}}, grpcmw.ForMetadata(duplex, "x-account"))
	for _, ctx := range []context.Context{
		within(t, soon), ofAccount(within(t, soon), ""),
		ofAccount(ofAccount(within(t, soon), "a1"), "a1"),
		ofAccount(within(t, soon), strings.Repeat("x", renewer.MaxName)),
	} {
		stream, err := client.FullDuplexCall(ctx)
		require.NoError(t, err)
		require.Equal(t, verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
			verdictOf(t, last(stream)))
	}
	require.Empty(t, store.Calls(script.Acquire))
}

// What such a handler has done was done without the lock. That is no good end.
func TestHandlerThatNeitherReceivesNorSendsIsNoSilentBypass(t *testing.T) {
	t.Parallel()
	errOwn := errors.New("the handler's own")
	rules := keyedBefore(duplex)
	rules["by the message"] = grpcmw.ForMethod(duplex, outputAccount)
	for name, rule := range rules {
		k, store := scripted(t)
		ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(),
			metadata.Pairs("x-account", "a1")))
		in := grpcmw.StreamServerInterceptor(k, rule)
		run := func(end error) error {
			return in(nil, &fakeServerStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: duplex},
				func(any, grpc.ServerStream) error {
					return end
				})
		}
		err := run(nil)
		require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err), name)
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "ran without its lock")
		require.Equal(t, errOwn, run(errOwn))
		cancel()
		require.NoError(t, run(nil), "the client has gone, which is no fault of the handler's")
		require.Empty(t, store.Calls(script.Acquire))
	}
}

// One goroutine of a handler receives and another sends, as gRPC allows. They take one lock between
// them, and both hear of its loss.
func TestReceiveAndSendAtTheSameTimeTakeOneLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		release := hold(t, newKeeper(t, b.store), duplex) // elsewhere
		stream := newTransport(t.Context())
		defer stream.end()
		wait := stream.recv
		stream.recv = func(any) error { elapse(time.Second); return nil }
		in := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
		err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error {
				sent, received := make(chan error, 1), make(chan error, 1)
				go func() { sent <- s.SendMsg(nil) }()
				go func() { received <- s.RecvMsg(nil) }()
				elapse(3 * time.Second)
				synctest.Wait()
				assert.Empty(t, sent)
				assert.Empty(t, received, "the message has come, the lock has not")
				release()
				assert.NoError(t, <-sent)
				assert.NoError(t, <-received)

				stream.recv = wait
				go func() { received <- s.RecvMsg(nil) }()
				elapse(time.Second)
				b.store.Delete(duplex)
				err := <-received
				assert.ErrorIs(t, err, renewer.ErrLost)
				return err
			})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
	})
}

// The first message is awaited when the lock is taken for an answer, and lost.
func TestFirstReceiveEndsWithALockThatWasTakenForASend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		defer stream.end()
		in := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
		err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error {
				received := make(chan error, 1)
				go func() { received <- s.RecvMsg(nil) }()
				synctest.Wait()
				assert.NoError(t, s.SendMsg(nil))
				b.store.Delete(duplex)
				assert.ErrorIs(t, <-received, renewer.ErrLost)
				return nil
			})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
	})
}

// Two interceptors in a chain take the outer one's lock first, also when a send comes first:
// another stream may receive first, and they would wait for each other.
func TestLocksOfAChainAreTakenInOneOrderWhateverComesFirst(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(grpc.ServerStream) error{
		"send":    func(s grpc.ServerStream) error { return s.SendMsg(nil) },
		"receive": func(s grpc.ServerStream) error { return s.RecvMsg(nil) },
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			stream := newTransport(metadata.NewIncomingContext(t.Context(),
				metadata.Pairs("x-account", "a1")))
			defer stream.end()
			stream.recv = func(any) error { return nil }
			info := &grpc.StreamServerInfo{FullMethod: duplex}
			outer := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
			inner := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMetadata(duplex, "x-account"))
			err := outer(nil, stream, info, func(srv any, s grpc.ServerStream) error {
				return inner(srv, s, info, func(_ any, s grpc.ServerStream) error {
					assert.NoError(t, use(s))
					assert.True(t, lockmw.Held(s.Context(), duplex))
					assert.True(t, lockmw.Held(s.Context(), "x-account:a1"))
					return nil
				})
			})
			require.NoError(t, err)
			var order []string
			for _, call := range b.store.Calls(script.Acquire) {
				order = append(order, call.Claims[0].Name)
			}
			require.Equal(t, []string{duplex, "x-account:a1"}, order, name)
		})
	}
}

// The outer lock's key is in a message that has not come.
func TestSendBeforeTheFirstMessageTakesNoInnerLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	info := &grpc.StreamServerInfo{FullMethod: duplex}
	outer := grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount))
	inner := grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
	err := outer(nil, &fakeServerStream{ctx: t.Context()}, info,
		func(srv any, s grpc.ServerStream) error {
			return inner(srv, s, info, func(_ any, s grpc.ServerStream) error {
				return s.SendMsg(nil)
			})
		})
	require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
	require.Empty(t, store.Calls(script.Acquire))
}

// An interceptor between two of ours has received the first message, as one that logs requests may.
func TestSendUnderAnOuterLockThatIsHeldAlready(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	info := &grpc.StreamServerInfo{FullMethod: duplex}
	outer := grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex, outputAccount))
	inner := grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
	nothing := func(any) error { return nil }
	early := func(s grpc.ServerStream) grpc.ServerStream {
		return &fakeServerStream{ctx: s.Context(), send: s.SendMsg}
	}
	err := outer(nil, &fakeServerStream{ctx: t.Context(), recv: nothing, send: nothing}, info,
		func(srv any, s grpc.ServerStream) error {
			kept := early(s)
			if err := s.RecvMsg(outputRequest("a1")); err != nil {
				return err
			}
			return inner(srv, kept, info, func(_ any, s grpc.ServerStream) error {
				return s.SendMsg(nil)
			})
		})
	require.NoError(t, err)
	free(t, store, "a1")
	require.Len(t, store.Calls(script.Acquire), 2)
}
