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

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

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
		first, err := b.k.Acquire(t.Context(), renewer.Request{Name: "first"})
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
				stream := newStream(t.Context())
				stream.recv = func(any) error { return nil }
				err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
					assert.NoError(t, use(s))
					pause()
					assert.NoError(t, s.Context().Err(), "it has not heard yet")
					err := use(s)
					assert.ErrorIs(t, err, renewer.ErrLost)
					return nil // a handler that goes on as if that had been the end
				})
				require.Equal(t, lost, verdictOf(t, err))
			})
		})
	}
}

// The pause comes while a message is awaited. The handler must not act on it.
func TestMessageReceivedAfterTheLossIsHeldBack(t *testing.T) {
	t.Parallel()
	paused(t, func(t *testing.T, b *bubble, pause func()) {
		stream := newStream(t.Context())
		stream.recv = func(any) error {
			pause()
			return nil
		}
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			assert.ErrorIs(t, s.RecvMsg(nil), renewer.ErrLost)
			return nil
		})
		require.Equal(t, "LOCK_LOST", verdictOf(t, err).reason)
	})
}

// The handler hears of it at the instant at which its context does, whatever
// the stream waits for.
func TestBlockedOperationsEndWithTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		b.store.Default(script.Renew, script.Fail(errDown))
		stream := newStream(t.Context())
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
		require.Equal(t, "LOCK_LOST", verdictOf(t, err).reason)
		require.Positive(t, ended)
		require.Equal(t, []time.Duration{ended, ended}, []time.Duration{sent, received})
	})
}

// Without a loss the stream is the caller's.
func TestCallersEndReachesAStreamByItself(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stream := newStream(ctx)
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
		stream := newStream(t.Context())
		stream.recv = func(any) error { panic("boom") }
		require.PanicsWithValue(t, "boom", func() {
			_ = serveStream(b.k, stream, func(s grpc.ServerStream) error { return s.RecvMsg(nil) })
		})
		free(t, b.store, duplex)
		stream = newStream(t.Context())
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

// An outer call's lock is lost. Its stream may not tell, as it is gRPC's.
func TestLossOfAnOuterLockEndsBlockedOperations(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		outer, exit, err := adapter.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		err = serveStream(b.k, newStream(context.WithoutCancel(outer), outer),
			func(s grpc.ServerStream) error {
				b.store.Delete("outer")
				return s.RecvMsg(nil)
			})
		require.Equal(t, lost, verdictOf(t, err))
		require.NoError(t, exit(nil))
	})
}

// The same while the stream waits for its first message, and so has no lock of
// its own.
func TestLossOfAnOuterLockEndsTheWaitForTheFirstMessage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		outer, exit, err := adapter.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		stream := newStream(context.WithoutCancel(outer), outer)
		defer stream.end()
		b.store.Delete("outer")
		err = grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount))(nil,
			stream, &grpc.StreamServerInfo{FullMethod: duplex}, nil)
		require.Equal(t, lost, verdictOf(t, err))
		require.NoError(t, exit(nil))
	})
}
