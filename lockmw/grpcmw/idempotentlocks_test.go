package grpcmw_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// locked adds a rule for the lock of an account, with options of it.
func locked(opts ...grpcmw.Option) func(*grpcmw.IdempotentConfig) {
	return func(c *grpcmw.IdempotentConfig) {
		c.Locks = slices.Concat(opts, []grpcmw.Option{grpcmw.ForMethod(unary, account)})
	}
}

// A call that did not get its lock by its rule is told when to come again, and
// its handler runs under the lock that it gets.
func TestTheLockOfACall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []grpcmw.Option
		took time.Duration
	}{
		"a wait":  {[]grpcmw.Option{lockmw.Wait(time.Second)}, time.Second},
		"no wait": {[]grpcmw.Option{lockmw.Refuse(), lockmw.Strict()}, 0},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			s, release := newShop(b.k, locked(c.opts...)), hold(t, b.k, "pen")
			s.handle = func(ctx context.Context, r *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				require.True(t, lockmw.Held(ctx, account(r)), name)
				return &pb.SimpleResponse{}, nil
			}
			_, err := s.order(t.Context(), "k", "pen")
			requireBusy(t, err)
			require.Equal(t, c.took, b.passed(), name)
			require.Zero(t, s.runs, name)
			release()
			_, err = s.order(t.Context(), "k", "pen")
			require.NoError(t, err, name)
		})
	}
}

func TestLocksThatCantBeMeant(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	for text, opts := range map[string][]grpcmw.Option{
		"takes rules":       {grpcmw.AcceptFence()},
		"further out":       {grpcmw.MaxWaitersPerCaller(1, callerOf)},
		"has two rules":     {grpcmw.ForMethod(unary, account)},
		"streaming methods": {grpcmw.ForWholeMethod(pb.TestService_FullDuplexCall_FullMethodName)},
		"not among its Methods": {
			grpcmw.ForWholeMethod(pb.TestService_EmptyCall_FullMethodName),
		},
	} {
		func() {
			defer func() { require.Contains(t, recover(), text) }()
			newShop(k, locked(opts...))
		}()
	}
}
