package grpcmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestClientStreamLooksAtTheClock(t *testing.T) {
	t.Parallel()
	paused(t, func(t *testing.T, b *bubble, pause func()) {
		fake := &fakeClientStream{
			header: func() (metadata.MD, error) { return metadata.MD{}, nil },
			recv:   func(any) error { return nil },
			send:   func(any) error { return nil },
		}
		in := grpcmw.StreamClientInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
		stream, err := in(t.Context(), &grpc.StreamDesc{}, nil, duplex, fake.open)
		require.NoError(t, err)
		require.NoError(t, stream.SendMsg(nil))
		require.NoError(t, stream.RecvMsg(nil))
		_, err = stream.Header()
		require.NoError(t, err)
		pause()
		require.NoError(t, fake.ctx.Err(), "it has not heard yet")
		require.ErrorIs(t, stream.SendMsg(nil), renewer.ErrLost)
		require.ErrorIs(t, stream.RecvMsg(nil), renewer.ErrLost)
		_, err = stream.Header()
		require.ErrorIs(t, err, renewer.ErrLost)
		fake.finish(nil)
	})
}

// What gRPC says of a stream whose context has ended is that it was
// cancelled. It was not, by the caller.
func TestClientStreamsOwnErrorIsJoinedByTheLoss(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		fake := &fakeClientStream{}
		until := func(err error) error {
			<-fake.ctx.Done()
			return err
		}
		errSend, errRecv, errHeader := errors.New("send"), errors.New("receive"), errors.New(
			"header",
		)
		fake.header = func() (metadata.MD, error) { return nil, until(errHeader) }
		fake.recv = func(any) error { return until(errRecv) }
		fake.send = func(any) error { return until(errSend) }
		for own, use := range map[error]func(grpc.ClientStream) error{
			errSend:   func(s grpc.ClientStream) error { return s.SendMsg(nil) },
			errRecv:   func(s grpc.ClientStream) error { return s.RecvMsg(nil) },
			errHeader: func(s grpc.ClientStream) error { _, err := s.Header(); return err },
		} {
			b.store.Script(script.Renew, script.Gone())
			in := grpcmw.StreamClientInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
			stream, err := in(t.Context(), &grpc.StreamDesc{}, nil, duplex, fake.open)
			require.NoError(t, err)
			err = use(stream)
			require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
				verdictOf(t, err))
			require.ErrorIs(t, err, own)
			fake.finish(err)
		}
	})
}

// A stream that was to be opened under a lock that is lost meanwhile.
func TestLateStreamHearsOfAnOuterLoss(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		outer, exit, err := lockmw.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		in := grpcmw.StreamClientInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount))
		stream, err := in(outer, &grpc.StreamDesc{}, nil, duplex, nil)
		require.NoError(t, err)
		b.store.Delete("outer")
		err = stream.RecvMsg(nil)
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrLost)
		require.NoError(t, exit(nil))
	})
}

// Who waits for a stream that is never opened hears of it when those
// have who expect to hear from gRPC, and not half.
func TestEndOfALateStreamIsWhole(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithCancel(t.Context())
		finish := make(chan struct{})
		in := grpcmw.StreamClientInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount))
		stream, err := in(ctx, &grpc.StreamDesc{}, nil, duplex, nil, grpc.OnFinish(func(error) {
			<-finish
		}))
		require.NoError(t, err)
		received := make(chan error, 1)
		go func() { received <- stream.RecvMsg(nil) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.Empty(t, received)
		close(finish)
		require.Equal(t, codes.Canceled, verdictOf(t, <-received).code)
	})
}

// The caller's options may be a part of a longer list of its own.
func TestCallersOptionsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		fake := &fakeClientStream{}
		opts := make([]grpc.CallOption, 0, 4)
		in := grpcmw.StreamClientInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
		_, err := in(t.Context(), &grpc.StreamDesc{}, nil, duplex, fake.open, opts...)
		require.NoError(t, err)
		require.Nil(t, opts[:1][0])
		fake.finish(nil)
	})
}
