package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// What a call gets that has no lock. Interceptors further out tell outcomes
// apart without reading texts. Keys may carry personal data: what is sent to
// the caller has none.
func TestCallsThatGetNoLock(t *testing.T) {
	t.Parallel()
	const secret = "iban-DE02"
	kinds := []error{
		renewer.ErrBusy, renewer.ErrUnavailable, renewer.ErrShutdown, renewer.ErrName,
		renewer.ErrLost, renewer.ErrConfig, context.Canceled, context.DeadlineExceeded,
	}
	busy := func(_ *testing.T, b *bubble) {
		b.store.Overwrite(secret, store.Holder{Node: secret, Operation: secret}, time.Hour)
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, b *bubble)
		key     string
		timeout time.Duration // less than 0: none
		kind    error
		want    verdict
	}{
		"busy": {busy, secret, -1, renewer.ErrBusy, verdict{codes.Aborted, "LOCK_BUSY", 1}},
		"store down": {func(_ *testing.T, b *bubble) {
			b.store.Default(script.Acquire, script.Fail(errors.New("no such key: "+secret)))
		}, secret, -1, renewer.ErrUnavailable, verdict{codes.Unavailable, "LOCK_UNAVAILABLE", 1}},
		"shut down": {func(t *testing.T, b *bubble) {
			require.NoError(t, b.k.Shutdown(t.Context()))
		}, secret, -1, renewer.ErrShutdown, verdict{codes.Unavailable, "LOCK_UNAVAILABLE", 1}},
		"lost": {func(_ *testing.T, b *bubble) {
			b.store.Default(script.Renew, script.Gone())
		}, secret, -1, renewer.ErrLost, lost},
		"too long":  {busy, strings.Repeat(secret, 100), -1, renewer.ErrName, invalid},
		"cancelled": {busy, secret, time.Second, context.Canceled, verdict{code: codes.Canceled}},
		"deadline":  {busy, secret, 0, context.DeadlineExceeded, verdict{code: codes.DeadlineExceeded}},
		"before a deadline": {
			busy, secret, time.Minute, renewer.ErrBusy,
			verdict{codes.Aborted, "LOCK_BUSY", 1},
		},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			c.prepare(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			switch {
			case c.want.code == codes.Canceled:
				time.AfterFunc(c.timeout, cancel)
			case c.timeout >= 0:
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
				defer cancel()
			}
			in := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account))
			_, err := in(ctx, request(c.key), &grpc.UnaryServerInfo{FullMethod: unary},
				func(ctx context.Context, _ any) (any, error) {
					<-ctx.Done()
					return nil, context.Cause(ctx) // says whose lock was lost
				})
			v := verdictOf(t, err)
			if c.want.retryIn > 0 {
				require.Positive(t, v.retryIn, name)
				c.want.retryIn = v.retryIn
			}
			require.Equal(t, c.want, v, name)
			for _, kind := range kinds {
				require.Equal(t, errors.Is(c.kind, kind), errors.Is(err, kind), "%s: %v is %v", name, err, kind)
			}
			raw, marshalErr := proto.Marshal(status.Convert(err).Proto())
			require.NoError(t, marshalErr)
			require.NotContains(t, string(raw), secret)
			require.NotContains(t, status.Convert(fmt.Errorf("wrapped: %w", err)).Message(), secret)
		})
	}
}

// A status says when to come back in its details, in its words and in the
// trailer. It leaves the server while the caller still listens: at the deadline
// itself the caller would have made up a DeadlineExceeded of its own, without a
// word about the lock.
func TestCallersHearBeforeTheirDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		client, end := serve(t, &service{}, nil, grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(
			b.k, grpcmw.ForMethod(unary, account))), grpc.StreamInterceptor(
			grpcmw.StreamServerInterceptor(b.k, grpcmw.ForWholeMethod(output))))
		defer end()
		defer hold(t, b.k, "a1")()
		defer hold(t, b.k, output)()
		for name, do := range map[string]func(context.Context, *metadata.MD) error{
			"unary": func(ctx context.Context, trailer *metadata.MD) error {
				_, err := client.UnaryCall(ctx, request("a1"), grpc.Trailer(trailer))
				return err
			},
			"stream": func(ctx context.Context, trailer *metadata.MD) error {
				stream, err := client.StreamingOutputCall(ctx, outputRequest("a1"),
					grpc.Trailer(trailer))
				require.NoError(t, err)
				return last(stream)
			},
		} {
			var trailer metadata.MD
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			begun := time.Now()
			err := do(ctx, &trailer)
			cancel()
			requireBusy(t, err)
			assert.Equal(t, lockmw.DefaultWait, time.Since(begun), name)
			in := verdictOf(t, err).retryIn
			assert.Equal(t, []string{strconv.FormatInt(in.Milliseconds(), 10)}, trailer.Get(pushback))
			assert.Equal(t, "lockbeat: another call has the lock that this one needs; try again in "+
				in.Round(time.Millisecond).String(), status.Convert(err).Message())

			ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			begun = time.Now()
			err = do(ctx, &trailer)
			cancel()
			requireBusy(t, err)
			assert.InDelta(t, 750*time.Millisecond, time.Since(begun), float64(time.Millisecond))
			assert.Equal(t, []string{"-1"}, trailer.Get(pushback),
				"a retry policy would wait until the deadline")
		}
	})
}

// patient is what a client configures to be served when the lock is
// free again. Its own backoff is longer than any test.
const patient = `{"methodConfig": [{"name": [{"service": "grpc.testing.TestService"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "60s", "maxBackoff": "60s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]}}]}`

// gRPC's own retry policy comes back when it is told. What has run, perhaps
// half, it does not run again, though the code is the same.
func TestRetryPolicy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		var runs, asked atomic.Int64
		var release func()
		comes := func() {
			if asked.Add(1) == 2 {
				release()
			}
		}
		s := &service{
			unary: func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				runs.Add(1)
				if account(r) == "a2" {
					lose(b.store, "a2")
					<-ctx.Done()
				}
				return &pb.SimpleResponse{}, context.Cause(ctx)
			},
		}
		client, end := serve(t, s, []grpc.DialOption{grpc.WithDefaultServiceConfig(patient)},
			grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
				handler grpc.UnaryHandler,
			) (any, error) {
				comes()
				return handler(ctx, req)
			}, grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account),
				lockmw.Refuse())))
		defer end()

		release = hold(t, b.k, "a1")
		_, err := client.UnaryCall(t.Context(), request("a1"))
		require.NoError(t, err)
		require.EqualValues(t, 2, asked.Load())
		require.Less(t, b.passed(), 4*time.Second)

		runs.Store(0)
		_, err = client.UnaryCall(t.Context(), request("a2"))
		require.Equal(t, lost, verdictOf(t, err))
		require.EqualValues(t, 1, runs.Load())
	})
}

// A line of any length would keep its last caller waiting for nothing, and
// memory with it.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	for most, opts := range map[int][]grpcmw.Option{
		100: nil, 2: {lockmw.MaxWaiters(2)},
	} {
		calling(t, func(t *testing.T, b *bubble, do call) {
			release := hold(t, b.k, "a1")
			served := make(chan error, most)
			for range most {
				go func() { served <- do(t.Context(), succeed) }()
			}
			synctest.Wait()
			err := do(t.Context(), never)
			requireBusy(t, err)
			require.ErrorIs(t, err, renewer.ErrQueueFull)
			require.Zero(t, b.passed(), "at once")
			release()
			for range most {
				require.NoError(t, <-served)
			}
		}, opts...)
	}
}

// One caller must not fill the lines of all keys. Unary calls and streams count
// alike, those that run or gave up do not.
func TestOneCallerFillsNoLines(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		bound := grpcmw.MaxWaitersPerCaller(2, callerOf)
		onUnary := grpcmw.UnaryServerInterceptor(b.k, grpcmw.ForMethod(unary, account), bound)
		onStream := grpcmw.StreamServerInterceptor(b.k, grpcmw.ForMetadata(duplex, "key"), bound)
		call := func(caller, key string) error {
			_, err := onUnary(by(t.Context(), caller), request(key),
				&grpc.UnaryServerInfo{FullMethod: unary},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
		stream := func(caller, key string) error {
			stream := newStream(incoming(by(t.Context(), caller), "key", key))
			stream.recv = stream.send
			defer stream.end()
			return onStream(nil, stream, &grpc.StreamServerInfo{FullMethod: duplex},
				func(any, grpc.ServerStream) error {
					return call(caller, key) // it has its lock, and does not wait
				})
		}
		first, second := hold(t, b.k, "a1"), hold(t, b.k, "key:a2")
		served := make(chan error, 2)
		go func() { served <- call("mallory", "a1") }()
		go func() { served <- stream("mallory", "a2") }()
		synctest.Wait()
		for _, do := range []func(string, string) error{call, stream} {
			requireRefused(t, codes.ResourceExhausted, "CALLER_QUOTA", do("mallory", "a3"))
			require.NoError(t, do("alice", "a3"))
			require.Equal(t, invalid, verdictOf(t, do("", "a3")), "of nobody")
		}
		require.Zero(t, b.passed(), "at once")
		elapse(lockmw.DefaultWait)
		requireBusy(t, <-served)
		requireBusy(t, <-served)
		require.NoError(t, stream("mallory", "a3"), "they wait no more")
		first()
		second()
	})
}

// While the store is away a server admits its share.
func TestLocalShareOfAServer(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Default(script.Acquire, script.Fail(errDown))
		ran := false
		require.NoError(t, do(t.Context(), func(ctx context.Context) error {
			ran = true
			assert.Zero(t, lockmw.Fence(ctx))
			assert.Equal(t, codes.Unavailable, status.Code(do(t.Context(), never)))
			return nil
		}))
		assert.True(t, ran)
	}, lockmw.LocalShare(1))
}
