package grpcmw_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var errDown = errors.New("connection refused")

// transport is what a fake stream does without a peer: it takes everything and waits
// for messages until its end, which gRPC brings about when the handler has returned.
type transport struct {
	*fakeServerStream

	end context.CancelFunc
}

func newTransport(ctx context.Context, handlers ...context.Context) *transport {
	ctx, end := context.WithCancel(ctx)
	seen := ctx
	if len(handlers) > 0 { // as an interceptor further out may have it
		seen = handlers[0]
	}
	return &transport{&fakeServerStream{
		ctx:  seen,
		recv: func(any) error { <-ctx.Done(); return ctx.Err() },
		send: func(any) error { return nil },
	}, end}
}

// serveStream runs a handler of a streaming method, locked as a whole, on a stream whose first
// message has come.
func serveStream(
	k *renewer.Keeper, stream *transport, handler func(grpc.ServerStream) error,
	opts ...grpcmw.Option,
) error {
	defer stream.end()
	in := grpcmw.StreamServerInterceptor(k, append(opts, grpcmw.ForWholeMethod(duplex))...)
	return in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
		func(_ any, s grpc.ServerStream) error {
			recv := stream.recv
			stream.recv = func(any) error { return nil }
			if err := s.RecvMsg(nil); err != nil {
				return err
			}
			stream.recv = recv
			return handler(s)
		})
}

// deaf is an observer that keeps the engine from hearing of anything,
// as when the process is paused: its heartbeats stand still, and so
// does what ends leases, in the first loss that it tells of.
type deaf struct {
	renewer.NopObserver

	paused atomic.Bool
	over   chan struct{}
}

func (d *deaf) RenewStart(ctx context.Context, _ renewer.RenewStart) context.Context {
	if d.paused.Load() {
		<-d.over
	}
	return ctx
}

func (d *deaf) Lost(_ context.Context, l renewer.Lost) {
	if l.Name == "first" {
		<-d.over
	}
}

// paused brings about that an operation's lease is over, by the
// clock, and its context has not ended yet.
func paused(t *testing.T, test func(t *testing.T, b *bubble, pause func())) {
	t.Helper()
	d := &deaf{}
	inBubble(t, func(t *testing.T, b *bubble) {
		d.over = make(chan struct{}) // the bubble's
		first, err := b.k.Acquire(t.Context(), "first")
		require.NoError(t, err)
		defer func() { require.ErrorIs(t, first.Release(t.Context()), renewer.ErrLost) }()
		elapse(time.Second)
		defer close(d.over)
		test(t, b, func() {
			d.paused.Store(true)
			elapse(time.Minute)
		})
	}, func(cfg *renewer.Config) { cfg.Observer = d })
}

func TestServerStreamLooksAtTheClock(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(grpc.ServerStream) error{
		"send":    func(s grpc.ServerStream) error { return s.SendMsg(nil) },
		"receive": func(s grpc.ServerStream) error { return s.RecvMsg(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paused(t, func(t *testing.T, b *bubble, pause func()) {
				stream := newTransport(t.Context())
				stream.recv = func(any) error { return nil }
				err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
					assert.NoError(t, use(s))
					pause()
					assert.NoError(t, s.Context().Err(), "it has not heard yet")
					err := use(s)
					assert.ErrorIs(t, err, renewer.ErrLost)
					return nil // a handler that goes on as if that had been the end
				})
				require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
					verdictOf(t, err))
			})
		})
	}
}

// The lock is an outer call's, and another one, which holds longer, lies between.
func TestServerStreamLooksAtTheClockOfItsOwnLock(t *testing.T) {
	t.Parallel()
	d := &deaf{}
	inBubble(t, func(t *testing.T, b *bubble) {
		d.over = make(chan struct{})
		first, err := b.k.Acquire(t.Context(), "first")
		require.NoError(t, err)
		defer func() { require.ErrorIs(t, first.Release(t.Context()), renewer.ErrLost) }()
		defer close(d.over)
		d.paused.Store(true)
		elapse(time.Second)
		outer, exit, err := lockmw.Enter(t.Context(), b.k, duplex)
		require.NoError(t, err)
		elapse(10 * time.Second)
		middle, leave, err := lockmw.Enter(outer, b.k, "middle")
		require.NoError(t, err)
		err = serveStream(b.k, newTransport(middle), func(s grpc.ServerStream) error {
			assert.NoError(t, s.SendMsg(nil))
			elapse(5 * time.Second)
			assert.NoError(t, s.Context().Err(), "it has not heard yet")
			assert.True(t, lockmw.Held(s.Context(), "middle"))
			return s.SendMsg(nil)
		})
		require.ErrorIs(t, err, renewer.ErrLost)
		require.NoError(t, leave(nil))
		require.NoError(t, exit(nil))
	}, func(cfg *renewer.Config) { cfg.Observer = d })
}

// The pause comes while a message is awaited. The handler must not act on it.
func TestMessageReceivedAfterTheLossIsHeldBack(t *testing.T) {
	t.Parallel()
	paused(t, func(t *testing.T, b *bubble, pause func()) {
		stream := newTransport(t.Context())
		stream.recv = func(any) error {
			pause()
			return nil
		}
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			assert.ErrorIs(t, s.RecvMsg(nil), renewer.ErrLost)
			return nil
		})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
	})
}

// The handler hears of it at the instant at which its context does, whatever the stream waits for.
func TestBlockedOperationsEndWithTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		b.store.Default(script.Renew, script.Fail(errDown))
		stream := newTransport(t.Context())
		stream.send = stream.recv // the window is full
		var sent, received, ended time.Duration
		waiting := new(atomic.Int64)
		wait := stream.recv
		stream.recv = func(m any) error {
			waiting.Add(1)
			return wait(m)
		}
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			done := make(chan struct{})
			go func() {
				defer close(done)
				assert.ErrorIs(t, s.SendMsg(nil), renewer.ErrLost)
				sent = b.passed()
			}()
			err := s.RecvMsg(nil)
			received = b.passed()
			<-done
			<-s.Context().Done()
			ended = b.passed()
			assert.ErrorIs(t, s.RecvMsg(nil), renewer.ErrLost)
			synctest.Wait()
			assert.EqualValues(t, 1, waiting.Load(), "the stream is not asked again")
			return err
		})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
		require.Positive(t, ended)
		require.Equal(t, []time.Duration{ended, ended}, []time.Duration{sent, received})
		require.Equal(t, []string{"-1"}, stream.trailer.Get("grpc-retry-pushback-ms"))
	})
}

func TestMaxHoldEndsAStream(t *testing.T) {
	t.Parallel()
	const maxHold = grpcmw.DefaultSilence / 2 // at the same instant either could end it
	inBubble(t, func(t *testing.T, b *bubble) {
		err := serveStream(b.k, newTransport(t.Context()), func(s grpc.ServerStream) error {
			return s.RecvMsg(nil)
		})
		require.Equal(t, maxHold, b.passed())
		var lost *renewer.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, renewer.ReasonMaxHold, lost.Reason)
	}, func(cfg *renewer.Config) { cfg.MaxHold = maxHold })
}

// Without a loss the stream is the caller's.
func TestCallersEndReachesAStreamByItself(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream := newTransport(ctx)
		errTransport := errors.New("the transport's own")
		stream.recv = func(any) error {
			<-ctx.Done()
			elapse(time.Second)
			return errTransport
		}
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error { return s.RecvMsg(nil) })
		require.Equal(t, errTransport, err)
		require.Equal(t, 2*time.Second, b.passed())
	})
}

// Interceptors further out may panic in the stream's methods. That is
// recovered where a panic of the handler is.
func TestPanicAndExitOfAStreamsMethodsPassThrough(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		stream.recv = func(any) error { panic("boom") }
		require.PanicsWithValue(t, "boom", func() {
			_ = serveStream(b.k, stream, func(s grpc.ServerStream) error { return s.RecvMsg(nil) })
		})
		free(t, b.store, duplex)
		stream = newTransport(t.Context())
		stream.recv = func(any) error { runtime.Goexit(); return nil }
		exited := make(chan struct{})
		go func() {
			defer close(exited)
			_ = serveStream(b.k, stream, func(s grpc.ServerStream) error { return s.RecvMsg(nil) })
			t.Error("it returned")
		}()
		<-exited
		free(t, b.store, duplex)
	})
}

// What a loss has left behind does not matter any more.
func TestPanicOfAnOperationThatALossLeftBehind(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		b.store.Default(script.Renew, script.Gone())
		stream := newTransport(t.Context())
		wait := stream.recv
		stream.recv = func(any) error { _ = wait(nil); panic("boom") }
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error { return s.RecvMsg(nil) })
		require.ErrorIs(t, err, renewer.ErrLost)
		synctest.Wait()
	})
}

// An outer call's lock is lost. Its stream may not tell, as it is gRPC's.
func TestLossOfAnOuterLockEndsBlockedOperations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		outer, exit, err := lockmw.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		err = serveStream(b.k, newTransport(context.WithoutCancel(outer), outer),
			func(s grpc.ServerStream) error {
				b.store.Delete("outer")
				return s.RecvMsg(nil)
			})
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.NoError(t, exit(nil))
	})
}

// The same while the stream waits for its first message, and so has no lock of its own.
func TestLossOfAnOuterLockEndsTheWaitForTheFirstMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		outer, exit, err := lockmw.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		stream := newTransport(context.WithoutCancel(outer), outer)
		defer stream.end()
		b.store.Delete("outer")
		err = grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(duplex))(nil, stream,
			&grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error { return s.RecvMsg(nil) })
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.NoError(t, exit(nil))
	})
}

// A lock that an outer interceptor holds is not freed by the inner
// one, and its loss is noticed though another lock is the innermost.
func TestReentryIntoAnOuterLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		outer, exit, err := lockmw.Enter(t.Context(), b.k, duplex)
		require.NoError(t, err)
		middle, leave, err := lockmw.Enter(outer, b.k, "middle")
		require.NoError(t, err)
		err = serveStream(b.k, newTransport(middle), func(s grpc.ServerStream) error {
			assert.Equal(t, lockmw.Fence(middle), lockmw.Fence(s.Context()))
			b.store.Delete(duplex)
			return s.RecvMsg(nil)
		})
		require.Equal(t, grpcmw.ReasonLost, verdictOf(t, err).reason)
		require.NoError(t, leave(nil))
		require.NoError(t, exit(nil))
	})
}
