package grpcmw_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var silent = verdict{code: codes.DeadlineExceeded, reason: grpcmw.ReasonSilence}

// A client that says nothing, or does not read, must not keep everybody else from the lock for
// ever.
func TestSilentClientHoldsItsLockForAWhileOnly(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(grpc.ServerStream) error{
		"send":    func(s grpc.ServerStream) error { return s.SendMsg(nil) },
		"receive": func(s grpc.ServerStream) error { return s.RecvMsg(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bubble) {
				stream := newTransport(t.Context())
				stream.send = stream.recv // the window is full
				err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
					early := s.Context()
					elapse(time.Hour) // of work, during which nobody waits for the client
					begun := time.Now()
					err := use(s)
					assert.Equal(t, time.Minute, time.Since(begun), "DefaultSilence")
					assert.ErrorIs(t, err, grpcmw.ErrSilence)
					<-early.Done()
					assert.Equal(t, grpcmw.ErrSilence, context.Cause(early))
					assert.ErrorIs(t, s.SendMsg(nil), grpcmw.ErrSilence)
					assert.ErrorIs(t, s.RecvMsg(nil), grpcmw.ErrSilence)
					elapse(time.Second)
					assert.NotEmpty(t, b.store.Owner(duplex), "until the handler has returned")
					return nil // as if that had been the end of the stream
				})
				free(t, b.store, duplex)
				require.Equal(t, silent, verdictOf(t, err))
				require.ErrorIs(t, err, grpcmw.ErrSilence)
				require.Equal(t, []string{"-1"}, stream.trailer.Get("grpc-retry-pushback-ms"))
			})
		})
	}
}

// Any message counts, in either direction, as long as each comes in time.
func TestClientThatIsNotSilent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
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
		stream := newTransport(t.Context())
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

// A stream that holds nothing yet keeps no other call waiting. From when it has its lock it counts.
func TestSilenceBeforeTheLockDoesNotCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		defer stream.end()
		in := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(duplex))
		err := in(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
			func(_ any, s grpc.ServerStream) error {
				received := make(chan error, 1)
				go func() { received <- s.RecvMsg(nil) }()
				elapse(time.Hour)
				free(t, b.store, duplex)
				assert.NoError(t, s.SendMsg(nil))
				locked := time.Now()
				err := <-received
				assert.Equal(t, grpcmw.DefaultSilence, time.Since(locked))
				return err
			})
		require.Equal(t, silent, verdictOf(t, err))
	})
}

func TestSilenceOfAnyLength(t *testing.T) {
	t.Parallel()
	for _, most := range []time.Duration{time.Nanosecond, time.Millisecond, 2 * time.Hour} {
		inBubble(t, func(t *testing.T, b *bubble) {
			err := serveStream(b.k, newTransport(t.Context()), func(s grpc.ServerStream) error {
				return s.RecvMsg(nil)
			}, grpcmw.Silence(most))
			require.Equal(t, most, b.passed())
			require.Equal(t, silent, verdictOf(t, err))
		})
	}
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		stream.recv = func(any) error { elapse(10 * time.Hour); return nil }
		require.NoError(t, serveStream(b.k, stream, func(s grpc.ServerStream) error {
			return s.RecvMsg(nil)
		}, grpcmw.Silence(math.MaxInt64)))
	})
	for _, d := range []time.Duration{0, -1} {
		require.Panics(t, func() { grpcmw.Silence(d) })
	}
}

// The handler has returned when its time is up, or nothing waits any more.
func TestStreamThatHasEndedIsNotSilent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			go func() { _ = s.RecvMsg(nil) }() // and left behind
			elapse(grpcmw.DefaultSilence - 1)
			return nil
		})
		require.NoError(t, err)
		elapse(time.Hour)
		require.Empty(t, stream.trailer)
	})
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		stream.recv = func(any) error { panic("boom") }
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			assert.Panics(t, func() { _ = s.RecvMsg(nil) })
			elapse(time.Hour)
			return nil
		})
		require.NoError(t, err)
	})
}

// A stream whose lock is lost as well ends with the loss: its work may have been done beside
// another's.
func TestLossOfASilentStreamsLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		err := serveStream(b.k, newTransport(t.Context()), func(s grpc.ServerStream) error {
			err := s.RecvMsg(nil)
			assert.ErrorIs(t, err, grpcmw.ErrSilence)
			b.store.Default(script.Renew, script.Gone())
			elapse(time.Minute)
			return err
		})
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.ErrorIs(t, err, grpcmw.ErrSilence)
	}, func(cfg *renewer.Config) { cfg.CancelGrace = 10 * time.Second })
}

// A handler that takes no notice keeps its lock for MaxHold at most, if that is set.
func TestHandlerThatOutlivesItsSilentClient(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		err := serveStream(b.k, newTransport(t.Context()), func(s grpc.ServerStream) error {
			assert.ErrorIs(t, s.RecvMsg(nil), grpcmw.ErrSilence)
			elapse(5 * time.Minute)
			free(t, b.store, duplex)
			return nil
		})
		require.Equal(t, silent, verdictOf(t, err))
	}, func(cfg *renewer.Config) { cfg.MaxHold = 3 * time.Minute })
}

// With two interceptors the shorter one's time counts, whichever it is.
func TestSilenceThroughTwoInterceptors(t *testing.T) {
	t.Parallel()
	for _, inner := range []time.Duration{time.Second, time.Hour} {
		inBubble(t, func(t *testing.T, b *bubble) {
			within := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount),
				grpcmw.Silence(inner))
			err := serveStream(b.k, newTransport(t.Context()), func(s grpc.ServerStream) error {
				return within(nil, s, &grpc.StreamServerInfo{FullMethod: duplex},
					func(_ any, s grpc.ServerStream) error {
						return s.RecvMsg(outputRequest("a1"))
					})
			}, grpcmw.Silence(time.Minute))
			require.Equal(t, silent, verdictOf(t, err))
			require.Equal(t, time.Minute, b.passed(), "the inner one holds nothing yet")
		})
		inBubble(t, func(t *testing.T, b *bubble) {
			within := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMetadata(duplex, "x-account"),
				grpcmw.Silence(inner))
			ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-account", "a1"))
			err := serveStream(b.k, newTransport(ctx), func(s grpc.ServerStream) error {
				return within(nil, s, &grpc.StreamServerInfo{FullMethod: duplex},
					func(_ any, s grpc.ServerStream) error {
						assert.NoError(t, s.SendMsg(nil))
						return s.RecvMsg(nil)
					})
			}, grpcmw.Silence(time.Minute))
			require.Equal(t, silent, verdictOf(t, err))
			require.Equal(t, min(inner, time.Minute), b.passed())
		})
	}
}

// Over a connection: the client is there, and says no more.
func TestSilentClientsOverAConnection(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	returned := make(chan error, 1)
	client := streamServer(t, k, &service{
		duplex: func(stream duplexServer) (err error) {
			defer func() { returned <- err }()
			return echo(stream)
		},
		output: func(_ *pb.StreamingOutputCallRequest, stream outputServer) (err error) {
			defer func() { returned <- err }()
			for {
				if err := stream.Send(&pb.StreamingOutputCallResponse{
					Payload: &pb.Payload{Body: make([]byte, 1<<16)},
				}); err != nil {
					return err
				}
			}
		},
	}, grpcmw.ForMethod(duplex, outputAccount), grpcmw.ForMethod(
		output, outputAccount,
	), grpcmw.Silence(100*time.Millisecond))

	mute, err := client.FullDuplexCall(within(t, soon))
	require.NoError(t, err)
	require.NoError(t, mute.Send(outputRequest("a1")))
	require.ErrorIs(t, <-returned, grpcmw.ErrSilence)
	require.Equal(t, silent, verdictOf(t, last(mute)))
	free(t, store, "a1")

	deaf, err := client.StreamingOutputCall(within(t, soon), outputRequest("a1"))
	require.NoError(t, err)
	require.ErrorIs(t, <-returned, grpcmw.ErrSilence)
	require.Equal(t, silent, verdictOf(t, last(deaf)),
		"it reads what was sent, and then why no more")
	free(t, store, "a1")
}

// Each message may come as late as is allowed, at the same instant as the timer looks.
func TestMessageInTheLastInstant(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		stream := newTransport(t.Context())
		stream.recv = func(any) error { elapse(time.Minute - 1); return nil }
		errEnd := errors.New("the handler's own")
		err := serveStream(b.k, stream, func(s grpc.ServerStream) error {
			for range 5 {
				if err := s.RecvMsg(nil); err != nil {
					return err
				}
				elapse(1)
			}
			synctest.Wait()
			return errEnd
		})
		require.Equal(t, errEnd, err)
	})
}
