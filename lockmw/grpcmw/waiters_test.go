package grpcmw_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

type callerKey struct{}

func by(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

// A line of any length would keep its last caller waiting for nothing, and memory with it.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waiting int
		opts    []grpcmw.Option
		refused bool
	}{
		"default": {grpcmw.DefaultMaxWaiters, nil, true},
		"one more": {
			grpcmw.DefaultMaxWaiters + 1,
			[]grpcmw.Option{grpcmw.MaxWaiters(grpcmw.DefaultMaxWaiters + 1)},
			true,
		},
		"no limit": {
			5 * grpcmw.DefaultMaxWaiters,
			[]grpcmw.Option{grpcmw.MaxWaiters(math.MaxInt)},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bubble) {
				do := caller(b.k, c.opts...)
				release := hold(t, b.k, "a1")
				served := make(chan error, c.waiting)
				for range c.waiting {
					go func() { served <- do(t.Context(), succeed) }()
				}
				synctest.Wait()
				if c.refused {
					v := verdictOf(t, do(t.Context(), never))
					assert.Equal(t, verdict{codes.Aborted, grpcmw.ReasonBusy, v.retryIn}, v)
					assert.Zero(t, b.passed(), "at once")
				}
				release()
				for range c.waiting {
					assert.NoError(t, <-served)
				}
			})
		})
	}
}

// One caller must not fill the lines of all keys. Unary calls and streams count alike.
func TestOneCallerFillsNoLines(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		bound := grpcmw.MaxWaitersPerCaller(2, callerOf)
		onUnary := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account), bound)
		onStream := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMethod(duplex, outputAccount),
			bound)
		call := func(caller, key string) error {
			_, err := onUnary(by(t.Context(), caller), request(key),
				&grpc.UnaryServerInfo{FullMethod: unary},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		stream := func(caller, key string) error {
			transport := newTransport(by(t.Context(), caller))
			defer transport.end()
			transport.recv = func(any) error { return nil }
			return onStream(nil, transport, &grpc.StreamServerInfo{FullMethod: duplex},
				func(_ any, s grpc.ServerStream) error {
					return s.RecvMsg(outputRequest(key))
				})
		}
		first, second := hold(t, b.k, "a1"), hold(t, b.k, "a2")
		served := make(chan error, 3)
		go func() { served <- call("mallory", "a1") }()
		go func() { served <- stream("mallory", "a2") }()
		synctest.Wait()
		for name, do := range map[string]func(string, string) error{
			"unary":  call,
			"stream": stream,
		} {
			v := verdictOf(t, do("mallory", "a3"))
			assert.Equal(t, verdict{codes.ResourceExhausted, grpcmw.ReasonQuota, v.retryIn}, v,
				name)
			assert.Positive(t, v.retryIn)
			assert.NoError(t, do("alice", "a3"), name)
			assert.Equal(t, verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
				verdictOf(t, do("", "a3")), "of nobody")
		}
		assert.Zero(t, b.passed(), "at once")
		go func() { served <- call("alice", "a1") }()
		first()
		second()
		for range 3 {
			assert.NoError(t, <-served)
		}
		assert.NoError(t, call("mallory", "a3"), "they wait no more")
	})
}

// A handler may make calls that wait, since its own has its lock.
func TestCallsThatRunDoNotWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		in := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account),
			grpcmw.MaxWaitersPerCaller(1, callerOf))
		ctx, info := by(t.Context(), "alice"), &grpc.UnaryServerInfo{FullMethod: unary}
		_, err := in(ctx, request("a1"), info, func(context.Context, any) (any, error) {
			return in(ctx, request("a2"), info, func(context.Context, any) (any, error) {
				return nil, nil
			})
		})
		require.NoError(t, err)
	})
}

// Calls that gave up or were refused do not count any more.
func TestCallersWhoWaitNoMoreAreForgotten(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		in := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account),
			grpcmw.MaxWaitersPerCaller(1, callerOf), grpcmw.Wait(time.Second))
		release := hold(t, b.k, "a1")
		for i := range 5 {
			ctx, cancel := context.WithTimeout(by(t.Context(), "mallory"),
				time.Duration(i+1)*300*time.Millisecond)
			_, err := in(ctx, request("a1"), &grpc.UnaryServerInfo{FullMethod: unary},
				func(context.Context, any) (any, error) {
					return nil, never(ctx)
				})
			assert.Contains(t, []codes.Code{codes.DeadlineExceeded, codes.Aborted},
				verdictOf(t, err).code, fmt.Sprint(i))
			cancel()
		}
		release()
	})
}

func TestBoundsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for _, meaningless := range []func(){
		func() { grpcmw.MaxWaitersPerCaller(0, callerOf) },
		func() { grpcmw.MaxWaitersPerCaller(-1, callerOf) },
		func() { grpcmw.MaxWaitersPerCaller(1, nil) },
	} {
		require.Panics(t, meaningless)
	}
}
