package grpcmw_test

import (
	"context"
	"testing"
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

var silent = verdict{code: codes.DeadlineExceeded, reason: "LOCK_SILENCE"}

// A client that says nothing, or does not read, must not keep everybody else
// from the lock for ever.
func TestSilentClientHoldsItsLockForAWhileOnly(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(grpc.ServerStream) error{
		"send":    func(s grpc.ServerStream) error { return s.SendMsg(nil) },
		"receive": func(s grpc.ServerStream) error { return s.RecvMsg(nil) },
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			stream := newStream(t.Context())
			stream.send = stream.recv // the window is full
			err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
				elapse(time.Hour) // of work, during which nobody waits for the client
				begun := time.Now()
				err := use(s)
				assert.Equal(t, time.Minute, time.Since(begun), name)
				assert.ErrorIs(t, err, grpcmw.ErrSilence)
				<-s.Context().Done()
				assert.Equal(t, grpcmw.ErrSilence, context.Cause(s.Context()))
				assert.ErrorIs(t, s.SendMsg(nil), grpcmw.ErrSilence)
				assert.ErrorIs(t, s.RecvMsg(nil), grpcmw.ErrSilence)
				elapse(time.Second)
				assert.NotEmpty(t, b.store.Owner(duplex), "until the handler has returned")
				return nil // as if that had been the end of the stream
			})
			free(t, b.store, duplex)
			require.Equal(t, silent, verdictOf(t, err))
		})
	}
}

// Any message counts, in either direction, as long as each comes in time.
func TestClientThatIsNotSilent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newStream(t.Context())
		wait := stream.recv
		stream.recv = func(any) error { elapse(9 * time.Second); return nil }
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			for range 10 {
				if err := s.RecvMsg(nil); err != nil {
					return err
				}
				elapse(time.Minute)
			}
			stream.recv = wait
			received, at := make(chan error, 1), time.Time{}
			go func() {
				err := s.RecvMsg(nil)
				at = time.Now()
				received <- err
			}()
			for range 10 { // while it is waited for, the client reads
				elapse(9 * time.Second)
				assert.NoError(t, s.SendMsg(nil))
			}
			last := time.Now()
			assert.ErrorIs(t, <-received, grpcmw.ErrSilence)
			assert.Equal(t, 10*time.Second, at.Sub(last))
			return errDown
		}, grpcmw.Silence(10*time.Second))
		require.Equal(t, silent, verdictOf(t, err))
		require.ErrorIs(t, err, errDown, "the handler's own is among what it is made of")
	})
}

// What can't be sent is no message.
func TestSendThatFailsDoesNotBreakTheSilence(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newStream(t.Context())
		stream.send = func(any) error { return errDown }
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			received := make(chan error, 1)
			go func() { received <- s.RecvMsg(nil) }()
			begun := time.Now()
			for len(received) == 0 {
				elapse(7 * time.Second)
				assert.Error(t, s.SendMsg(nil))
			}
			assert.Equal(t, 63*time.Second, time.Since(begun))
			return <-received
		})
		require.Equal(t, silent, verdictOf(t, err))
	})
}

func TestSilenceOfAnyLength(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{time.Nanosecond, time.Millisecond, 2 * time.Hour} {
		inBubble(t, func(t *testing.T, b *bubble) {
			err := serveStream(b.k, newStream(t.Context()), func(s grpc.ServerStream) error {
				return s.RecvMsg(nil)
			}, grpcmw.Silence(most))
			require.Equal(t, most, b.passed())
			require.Equal(t, silent, verdictOf(t, err))
		})
	}
}

func TestNoBoundIsNone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newStream(t.Context())
		stream.recv = func(any) error { elapse(20 * time.Minute); return nil }
		release := hold(t, b.k, duplex)
		time.AfterFunc(time.Minute, release)
		require.NoError(t, serveStream(b.k, stream, func(s grpc.ServerStream) error {
			assert.GreaterOrEqual(t, b.passed(), time.Minute)
			return s.RecvMsg(nil)
		}, grpcmw.Silence(lockmw.NoBound), lockmw.Wait(lockmw.NoBound), lockmw.MaxHold(lockmw.NoBound),
			lockmw.MaxWaiters(lockmw.NoBound), grpcmw.MaxWaitersPerCaller(lockmw.NoBound, ann)))
		require.GreaterOrEqual(t, b.passed(), 21*time.Minute)
	}, func(cfg *renewer.Config) { cfg.MaxHold = 10 * time.Minute })
}

// A stream whose lock is lost as well ends with the loss: its work may have
// been done beside another's.
func TestLossOfASilentStreamsLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		err := serveStream(b.k, newStream(t.Context()), func(s grpc.ServerStream) error {
			err := s.RecvMsg(nil)
			assert.ErrorIs(t, err, grpcmw.ErrSilence)
			b.store.Default(script.Renew, script.Gone())
			elapse(time.Minute)
			return err
		})
		require.Equal(t, lost, verdictOf(t, err))
		require.ErrorIs(t, err, grpcmw.ErrSilence)
	}, func(cfg *renewer.Config) { cfg.CancelGrace = 10 * time.Second })
}
