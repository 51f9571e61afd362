package grpcmw_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// A goroutine of the handler outlives it.
func TestNothingPassesAfterTheHandlersReturn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
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

// slowGrant keeps those who have got a lock from hearing of it.
type slowGrant struct {
	renewer.NopObserver

	hear chan struct{}
}

func (s *slowGrant) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	if e.Err == nil && e.Name == "a1" {
		<-s.hear
	}
	return ctx
}

// A goroutine of the handler gets the lock when the handler has
// returned already. Nobody but us knows, so we free it.
func TestLockTakenAfterTheHandlersReturnIsFreed(t *testing.T) {
	t.Parallel()
	observer := &slowGrant{}
	inBubble(t, func(t *testing.T, b *bubble) {
		observer.hear = make(chan struct{})
		in := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount))
		stream := &fakeServerStream{ctx: t.Context(), recv: func(any) error { return nil }}
		received := make(chan error, 1)
		err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error {
				go func() { received <- s.RecvMsg(outputRequest("a1")) }()
				synctest.Wait()
				return nil
			})
		require.NoError(t, err)
		require.NotEmpty(t, b.store.Owner("a1"))
		close(observer.hear)
		require.Equal(t, codes.Canceled, verdictOf(t, <-received).code)
		free(t, b.store, "a1")
	}, func(cfg *renewer.Config) { cfg.Observer = observer })
}

// It waits in line, in a goroutine that the handler has left behind.
func TestHandlersReturnEndsTheWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		defer hold(t, b.k, "a1")()
		in := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount))
		stream := &fakeServerStream{ctx: t.Context(), recv: func(any) error { return nil }}
		received := make(chan error, 1)
		err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error {
				go func() { received <- s.RecvMsg(outputRequest("a1")) }()
				synctest.Wait()
				return nil
			})
		require.NoError(t, err)
		require.Equal(t, codes.Canceled, verdictOf(t, <-received).code)
		require.Zero(t, b.passed())
	})
}
