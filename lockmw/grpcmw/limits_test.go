package grpcmw_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// What a call gets for which a limit has no slot: when to come back, and the
// number, and no name.
func TestCallsAtTheirLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  lockmw.Set
		opts []grpcmw.Option
		want string
	}{
		"full":   {lockmw.Limit("iban", 1), []grpcmw.Option{lockmw.Refuse()}, "1"},
		"waited": {lockmw.Limit("iban", 1), []grpcmw.Option{lockmw.Wait(time.Second)}, "1"},
		"closed": {lockmw.Limit("iban", 0), nil, "0"},
		"by a function": {
			lockmw.LimitFunc("iban", func() int { return 1 }), []grpcmw.Option{lockmw.Refuse()}, "1",
		},
		"several": {
			lockmw.All(lockmw.Limit("iban", 1), lockmw.Limit("all", 9)),
			[]grpcmw.Option{lockmw.Refuse()},
			"1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, memory.New())
				_, exit, err := adapter.Enter(t.Context(), k, lockmw.Limit("iban", 1))
				require.NoError(t, err)
				in := grpcmw.UnaryServerInterceptor(k, append(c.opts, grpcmw.ForMethod(unary,
					func(*pb.SimpleRequest) lockmw.Set { return c.key }))...)
				_, err = in(t.Context(), request(""), &grpc.UnaryServerInfo{FullMethod: unary},
					func(context.Context, any) (any, error) {
						t.Error("runs")
						return nil, nil
					})
				require.ErrorIs(t, err, renewer.ErrBusy)
				s := status.Convert(err)
				assert.Equal(t, codes.ResourceExhausted, s.Code())
				assert.NotContains(t, s.Proto().String(), "iban")
				require.Len(t, s.Details(), 2)
				why := s.Details()[0].(*errdetails.ErrorInfo)
				assert.Equal(t, "LOCK_BUSY", why.GetReason())
				assert.Equal(t, c.want, why.GetMetadata()["limit"])
				assert.Positive(t, s.Details()[1].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
				require.NoError(t, exit(nil))
			})
		})
	}
}

// A stream keeps its slot to its end, however long, and the slot is free then,
// whatever the end.
func TestAStreamKeepsItsSlot(t *testing.T) {
	t.Parallel()
	const loose, strict = time.Hour, time.Minute // of silence
	for name, c := range map[string]struct {
		silence time.Duration
		end     func(cancel func(), stream duplexClient)
		want    codes.Code
	}{
		"the client ends it": {
			loose, func(_ func(), s duplexClient) { _ = s.CloseSend() }, codes.OK,
		},
		"the client has gone": {
			loose, func(cancel func(), _ duplexClient) { cancel() }, codes.Canceled,
		},
		"the handler returns": {
			loose, func(_ func(), s duplexClient) { _ = s.Send(outputRequest("return")) },
			codes.NotFound,
		},
		"the handler panics": {
			loose, func(_ func(), s duplexClient) { _ = s.Send(outputRequest("panic")) },
			codes.Internal,
		},
		"the slot is lost": { // by MaxHold
			loose, func(func(), duplexClient) {}, codes.Aborted,
		},
		"the client is silent": {strict, func(func(), duplexClient) {}, codes.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, memory.New())
			defer fill(t, k, "a1")()
			in := grpcmw.StreamServerInterceptor(k, grpcmw.ForMethod(duplex,
				func(r *pb.StreamingOutputCallRequest) lockmw.Set {
					return lockmw.Limit(outputAccount(r), 2)
				}), grpcmw.Silence(c.silence), lockmw.MaxHold(10*time.Minute))
			client, end := serve(t, &service{duplex: untilTold}, nil,
				grpc.ChainStreamInterceptor(recovering, in))
			defer end()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := client.FullDuplexCall(ctx)
			require.NoError(t, err)
			require.NoError(t, stream.Send(outputRequest("a1")))
			elapse(3 * k.Config().TTL)
			_, err = k.Acquire(t.Context(), renewer.Request{Name: "a1", Limit: ofTwo, Try: true})
			require.ErrorIs(t, err, renewer.ErrBusy, name)
			c.end(cancel, stream)
			require.Equal(t, c.want, status.Code(last(stream)), name)
			synctest.Wait() // a client that has gone does not wait for the server
			slot, err := k.Acquire(t.Context(), renewer.Request{
				Name: "a1", Limit: ofTwo, Try: true,
			})
			require.NoError(t, err, name)
			require.NoError(t, slot.Release(t.Context()))
		})
	}
}

type duplexClient = grpc.BidiStreamingClient[pb.StreamingOutputCallRequest,
	pb.StreamingOutputCallResponse]

var ofTwo = func() int { return 2 }

// fill has another caller take a slot of a limit of two, until free is called.
func fill(t *testing.T, k *renewer.Keeper, name string) (free func()) {
	t.Helper()
	slot, err := k.Acquire(t.Context(), renewer.Request{Name: name, Limit: ofTwo, Try: true})
	require.NoError(t, err)
	return func() { require.NoError(t, slot.Release(t.Context())) }
}

// untilTold is a handler that goes on until its stream ends, or its client says
// how.
func untilTold(stream duplexServer) error {
	for {
		r, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case outputAccount(r) == "return":
			return errHandler
		case outputAccount(r) == "panic":
			panic("boom")
		}
	}
}

// recovering does what recovery interceptors do.
func recovering(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
) (err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panicked")
		}
	}()
	return handler(srv, stream)
}

// gone is a store that has no answer to an acquire.
type gone struct{ store.Store }

func (gone) Acquire(ctx context.Context, _ []store.Claim) []store.Grant {
	<-ctx.Done()
	return []store.Grant{{Err: ctx.Err()}}
}

// While the store is away a server admits its share.
func TestLocalShareOfAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, engine.Of(gone{memory.New().Engine()}))
		call := caller(k, lockmw.LocalShare(1))
		require.NoError(t, call(t.Context(), func(ctx context.Context) error {
			assert.Zero(t, lockmw.Fence(ctx))
			err := call(t.Context(), func(context.Context) error { return nil })
			assert.Equal(t, codes.Unavailable, status.Code(err))
			return nil
		}))
	})
}
