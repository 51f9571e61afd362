package grpcmw_test

import (
	"context"
	"errors"
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

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// enough reports that a slot of a limit of one is free.
func enough(t *testing.T, k *renewer.Keeper, name string) bool {
	t.Helper()
	ran, _ := lockmw.Run(t.Context(), k, name, func(context.Context) error { return nil },
		lockmw.AtMost(1), lockmw.Refuse())
	return ran
}

// What a call gets for which a limit has no slot: when to come back, and the number, and no name.
func TestCallsAtTheirLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key  string
		opts []grpcmw.Option
		want string
	}{
		"full":   {"iban", []grpcmw.Option{grpcmw.AtMost(1), grpcmw.Refuse()}, "1"},
		"waited": {"iban", []grpcmw.Option{grpcmw.AtMost(1), grpcmw.Wait(time.Second)}, "1"},
		"closed": {"iban", []grpcmw.Option{grpcmw.AtMost(0)}, "0"},
		"named": {
			lockmw.Limits(lockmw.Limit("iban", 1), lockmw.Limit("all", 9)),
			[]grpcmw.Option{grpcmw.Refuse()},
			"1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, memory.New())
				_, exit, err := lockmw.Enter(t.Context(), k, lockmw.Limit("iban", 1))
				require.NoError(t, err)
				in := grpcmw.UnaryServerInterceptor(k, append(c.opts, grpcmw.ForMethod(unary,
					func(*pb.SimpleRequest) string { return c.key }))...)
				_, err = in(t.Context(), request(""), &grpc.UnaryServerInfo{FullMethod: unary},
					func(context.Context, any) (any, error) {
						t.Error("runs")
						return nil, nil
					})
				require.ErrorIs(t, err, renewer.ErrHeld)
				s := status.Convert(err)
				assert.Equal(t, codes.ResourceExhausted, s.Code())
				assert.NotContains(t, s.Proto().String(), "iban")
				require.Len(t, s.Details(), 2)
				why := s.Details()[0].(*errdetails.ErrorInfo)
				assert.Equal(t, grpcmw.ReasonBusy, why.GetReason())
				assert.Equal(t, c.want, why.GetMetadata()["limit"])
				assert.Positive(t, s.Details()[1].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
				require.NoError(t, exit(nil))
			})
		})
	}
}

// A stream keeps its slot to its end, however it ends.
func TestAStreamGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		server func(duplexServer) error
		client func(cancel func(), s pb.TestService_FullDuplexCallClient)
	}{
		"it returns": {echo, func(_ func(), s pb.TestService_FullDuplexCallClient) { _ = s.CloseSend() }},
		"the client leaves": {echo, func(cancel func(), _ pb.TestService_FullDuplexCallClient) {
			cancel()
		}},
		"an error": {func(s duplexServer) error {
			_ = echo(s)
			return errors.New("no")
		}, func(_ func(), s pb.TestService_FullDuplexCallClient) { _ = s.CloseSend() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, memory.New())
			client := streamServer(t, k, &service{duplex: end.server}, grpcmw.AtMost(1),
				grpcmw.ForMethod(duplex, func(*pb.StreamingOutputCallRequest) string { return "a" }))
			ctx, cancel := context.WithCancel(within(t, soon))
			defer cancel()
			stream, err := client.FullDuplexCall(ctx)
			require.NoError(t, err)
			require.NoError(t, stream.Send(outputRequest("a1")))
			_, err = stream.Recv()
			require.NoError(t, err)
			require.False(t, enough(t, k, "a"), "the stream has it")
			end.client(cancel, stream)
			require.Eventually(t, func() bool { return enough(t, k, "a") }, soon, time.Millisecond)
		})
	}
}

// gone is a store that has no answer to an acquire.
type gone struct{ *memory.Store }

func (gone) Acquire(ctx context.Context, _ []store.Claim) []store.Grant {
	<-ctx.Done()
	return []store.Grant{{Err: ctx.Err()}}
}

// While the store is away a server admits its share.
func TestLocalShareOfAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, gone{memory.New()})
		call := caller(k, grpcmw.AtMost(9), grpcmw.LocalShare(1))
		require.NoError(t, call(t.Context(), func(ctx context.Context) error {
			assert.Zero(t, lockmw.Fence(ctx))
			err := call(t.Context(), func(context.Context) error { return nil })
			assert.Equal(t, codes.Unavailable, status.Code(err))
			return nil
		}))
	})
}

// Numbers that can't be meant end the program when it starts.
func TestBadLimits(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { grpcmw.AtMost(-1) })
	assert.Panics(t, func() { grpcmw.LocalShare(0) })
}
