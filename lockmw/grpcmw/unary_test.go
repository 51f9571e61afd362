package grpcmw_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
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

func TestTheCallsOwnErrorPassesUnchanged(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		for _, want := range []error{errHandler, context.Canceled, incomparable{"x"}} {
			require.Equal(t, want, do(t.Context(), func(context.Context) error { return want }))
		}
	})
}

type incomparable []string

func (incomparable) Error() string { return "incomparable" }

func TestLossIsToldFromCancellation(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Default(script.Renew, script.Gone())
		for _, own := range []error{errHandler, context.Canceled, nil} {
			err := do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), renewer.ErrLost)
				return own
			})
			if own == nil {
				require.NoError(t, err, "a finished result stands")
				continue
			}
			require.Equal(t, lost, verdictOf(t, err))
			require.ErrorIs(t, err, own, "nothing is masked")
			var loss *renewer.LostError
			require.ErrorAs(t, err, &loss)
			require.Equal(t, renewer.ReasonTaken, loss.Reason)
		}
	})
}

func TestStrict(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		b.store.Script(script.Renew, script.Gone())
		err := do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		require.Equal(t, lost, verdictOf(t, err))
		require.NoError(t, do(t.Context(), succeed), "no loss, no error")
	}, lockmw.Strict())
}

// A call made under a lock that is lost is cancelled by that. It is no
// cancellation by the caller.
func TestLossOfAnOuterLock(t *testing.T) {
	t.Parallel()
	calling(t, func(t *testing.T, b *bubble, do call) {
		outer, exit, err := adapter.Enter(t.Context(), b.k, "outer")
		require.NoError(t, err)
		b.store.Delete("outer")
		err = do(outer, func(ctx context.Context) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		})
		require.Equal(t, lost, verdictOf(t, err))
		require.Equal(t, lost, verdictOf(t, do(outer, never)))
		require.NoError(t, exit(nil))
	})
}

var errDown = errors.New("connection refused")
