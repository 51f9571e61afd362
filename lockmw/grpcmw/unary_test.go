package grpcmw_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var errHandler = status.Error(codes.NotFound, "no such account")

func TestUnaryCallRunsUnderItsLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	ran := false
	client := unaryServer(t, k,
		&service{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			ran = true
			assert.True(t, lockmw.Held(ctx, "a1"))
			assert.Positive(t, lockmw.Fence(ctx))
			return &pb.SimpleResponse{Username: "me"}, nil
		}}, grpcmw.ForMethod(unary, account))
	reply, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	require.Equal(t, "me", reply.GetUsername())
	require.True(t, ran)
	free(t, store, "a1")
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 1)
	require.Equal(t, "a1", calls[0].Claims[0].Name)
	require.Equal(t, unary, calls[0].Claims[0].Holder.Operation)

	_, err = client.EmptyCall(within(t, soon), &pb.Empty{})
	require.Equal(t, codes.Unimplemented, verdictOf(t, err).code,
		"a method without a rule passes through")
	require.Len(t, store.Calls(script.Acquire), 1)
}

func TestOperationIsWhatOthersRead(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account),
		grpcmw.Operation("transfer"))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err)
	require.Equal(t, "transfer", store.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
}

// call is one unary call without a transport.
type call func(ctx context.Context, handler func(context.Context) error) error

// caller makes calls under the lock on a1.
func caller(k *renewer.Keeper, opts ...grpcmw.Option) call {
	in := grpcmw.UnaryServerInterceptor(k,
		append([]grpcmw.Option{grpcmw.ForMethod(unary, account)}, opts...)...)
	return func(ctx context.Context, handler func(context.Context) error) error {
		_, err := in(ctx, request("a1"), &grpc.UnaryServerInfo{FullMethod: unary},
			func(ctx context.Context, _ any) (any, error) {
				return nil, handler(ctx)
			})
		return err
	}
}

// calling runs a test in a bubble, with a way to make calls.
func calling(t *testing.T, test func(t *testing.T, b *bubble, do call), opts ...grpcmw.Option) {
	t.Helper()
	inBubble(t, func(t *testing.T, b *bubble) { test(t, b, caller(b.k, opts...)) })
}

// bubble is a keeper and its store, in virtual time.
type bubble struct {
	k     *renewer.Keeper
	store *script.Store
	begun time.Time
}

// inBubble also makes sure that nothing is held in the end.
func inBubble(t *testing.T, test func(t *testing.T, b *bubble), edit ...func(*renewer.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := renewer.Config{TTL: renewer.DefaultTTL, Node: "here"}
		for _, f := range edit {
			f(&cfg)
		}
		store := script.New()
		k, err := renewer.New(store, cfg)
		require.NoError(t, err)
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Hour)
			defer cancel()
			assert.NoError(t, k.Shutdown(ctx), "a lock is still held")
			synctest.Wait()
		}()
		test(t, &bubble{k, store, time.Now()})
	})
}

func (b *bubble) passed() time.Duration { return time.Since(b.begun) }

func never(context.Context) error { return errors.New("it ran") }

func succeed(context.Context) error { return nil }

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

func TestCallWaitsInLineForItsLock(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		release := hold(t, b.k, "a1")
		time.AfterFunc(3*time.Second, release)
		require.NoError(t, do(t.Context(), succeed))
		require.Equal(t, 3*time.Second, b.passed())
	})
}

func TestWaitRunsOut(t *testing.T) {
	t.Parallel()
	for want, opts := range map[time.Duration][]grpcmw.Option{
		lockmw.DefaultWait: nil,
		2 * time.Second:    {grpcmw.Refuse(), grpcmw.Wait(2 * time.Second)},
		0:                  {grpcmw.Wait(time.Hour), grpcmw.Refuse()},
	} {
		calling(t, func(t *testing.T, b *bubble, do call) {
			defer hold(t, b.k, "a1")()
			err := do(t.Context(), never)
			require.Equal(t, want, b.passed())
			require.ErrorIs(t, err, renewer.ErrHeld)
			v := verdictOf(t, err)
			require.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v)
			var whole *renewer.Error
			require.ErrorAs(t, err, &whole, "interceptors further out can tell the rest")
			require.Equal(t, "a1", whole.Name)
		}, opts...)
	}
}

func TestRetryIn(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		defer hold(t, b.k, "a1")()
		for range 20 {
			v := verdictOf(t, do(t.Context(), never))
			require.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v)
			require.GreaterOrEqual(t, v.retryIn, 10*time.Second)
			require.Less(t, v.retryIn, 30*time.Second)
		}
	}, grpcmw.RetryIn(20*time.Second), grpcmw.Refuse())
}

func TestFullLineRefusesAtOnce(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		release := hold(t, b.k, "a1")
		var waiting sync.WaitGroup
		for range 2 {
			waiting.Go(func() { assert.NoError(t, do(t.Context(), succeed)) })
		}
		synctest.Wait()
		err := do(t.Context(), never)
		require.ErrorIs(t, err, renewer.ErrQueueFull)
		require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
		require.Zero(t, b.passed())
		release()
		waiting.Wait()
	}, grpcmw.MaxWaiters(2))
}

func TestTheCallersOwnCancellation(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		defer hold(t, b.k, "a1")()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := do(ctx, never)
		require.Equal(t, time.Second, b.passed())
		require.Equal(t, verdict{code: codes.Canceled}, verdictOf(t, err))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestStoreDownIsNeverBusy(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Default(script.Acquire, script.Fail(errors.New("connection refused")))
		err := do(t.Context(), never)
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		v := verdictOf(t, err)
		require.Equal(t, verdict{codes.Unavailable, grpcmw.ReasonUnavailable, v.retryIn}, v)
		require.Positive(t, v.retryIn)
		require.NotContains(t, err.Error(), "connection refused")
	})
}

func TestKeeperShutDown(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		require.NoError(t, b.k.Shutdown(t.Context()))
		err := do(t.Context(), never)
		require.ErrorIs(t, err, renewer.ErrShutdown)
		v := verdictOf(t, err)
		require.Equal(t, verdict{codes.Unavailable, grpcmw.ReasonUnavailable, v.retryIn}, v)
		require.Positive(t, v.retryIn)
	})
}

func TestTheCallsOwnErrorPassesUnchanged(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		for _, want := range []error{errHandler, context.Canceled, incomparable{"x"}} {
			require.Equal(t, want, do(t.Context(), func(context.Context) error { return want }))
		}
	})
}

// incomparable errors panic when they are compared by ==.
type incomparable []string

func (incomparable) Error() string { return "incomparable" }

func TestLossIsAbortedNeverCanceled(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Script(script.Renew, script.Gone())
		err := do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		})
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrLost)

		b.store.Script(script.Renew, script.Gone())
		err = do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return errHandler
		})
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.ErrorIs(t, err, errHandler, "nothing is masked")
		var lost *renewer.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, renewer.ReasonTaken, lost.Reason)

		b.store.Script(script.Renew, script.Gone())
		err = do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
	})
}

func TestResultStandsUnlessStrict(t *testing.T) {
	t.Parallel()
	untilLost := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Script(script.Renew, script.Gone())
		require.NoError(t, do(t.Context(), untilLost))
	})
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Script(script.Renew, script.Gone())
		err := do(t.Context(), untilLost)
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.NoError(t, do(t.Context(), succeed), "no loss, no error")
	}, grpcmw.Strict())
}

// A call made under a lock that is lost is cancelled by that. It is no cancellation by the caller.
func TestLossOfAnOuterLock(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		outer, exit, err := lockmw.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		b.store.Delete("outer")
		err = do(outer, func(ctx context.Context) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		})
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		err = do(outer, never)
		require.Equal(t, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}, verdictOf(t, err))
		require.NoError(t, exit(nil))
	})
}

func TestPanicAndExitFreeTheLockAndPassThrough(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		require.PanicsWithValue(t, "boom", func() {
			_ = do(t.Context(), func(context.Context) error { panic("boom") })
		})
		free(t, b.store, "a1")
		exited := make(chan struct{})
		go func() {
			defer close(exited)
			_ = do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
			t.Error("it returned")
		}()
		<-exited
		free(t, b.store, "a1")
	})
}

// The lock is the handler's until it has returned, whatever becomes of the caller.
func TestCallersEndDoesNotFreeTheLock(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		ctx, cancel := context.WithCancel(t.Context())
		err := do(ctx, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			elapse(time.Hour)
			assert.NotEmpty(t, b.store.Owner("a1"))
			return errHandler
		})
		require.Equal(t, errHandler, err)
	})
}

func TestServerStopsWhileCallsWait(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*grpc.Server, func()){
		"Stop": func(s *grpc.Server, _ func()) { s.Stop() },
		"GracefulStop": func(s *grpc.Server, release func()) {
			time.AfterFunc(50*time.Millisecond, release)
			s.GracefulStop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			release := hold(t, newKeeper(t, store), "a1")
			addr, server := serve(t, &service{},
				grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(k,
					grpcmw.ForMethod(unary, account))))
			client := pb.NewTestServiceClient(dial(t, addr))
			done := make(chan error, 1)
			go func() {
				_, err := client.UnaryCall(within(t, soon), request("a1"))
				done <- err
			}()
			require.Eventually(t, func() bool {
				return len(store.Calls(script.Acquire)) > 1
			}, soon, tick)
			stop(server, sync.OnceFunc(release))
			if err := <-done; name == "Stop" {
				require.Equal(t, codes.Unavailable, verdictOf(t, err).code)
				release()
			} else {
				require.NoError(t, err)
			}
			awaitFree(t, store, "a1")
		})
	}
}
