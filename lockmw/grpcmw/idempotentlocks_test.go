package grpcmw_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// locked adds a rule for the lock of an account, with options of it.
func locked(opts ...grpcmw.Option) func(*grpcmw.IdempotentConfig) {
	return func(c *grpcmw.IdempotentConfig) {
		c.Locks = slices.Concat(opts, []grpcmw.Option{grpcmw.ForMethod(unary, account)})
	}
}

// Calls waited for a lock further in with their transactions open, so that its
// holder got no connection of the same pool. And the lock was free before they
// were committed.
func TestTheLockOfACallIsAroundItsTransaction(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		l := &ledger{Records: records.Of(b.k)}
		s := newShop(b.k, locked(), func(cfg *grpcmw.IdempotentConfig) { cfg.Recorder = l })
		s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			require.True(t, lockmw.Held(ctx, "pen"))
			return &pb.SimpleResponse{Username: "charged"}, nil
		}
		l.before = func(store.Record) { require.NotEmpty(t, b.store.Owner("pen")) }
		release := hold(t, b.k, "pen")
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, err := s.order(t.Context(), "k", "pen")
			assert.NoError(t, err)
			assert.Equal(t, "charged", got)
		}()
		<-time.After(3 * time.Second)
		require.Zero(t, l.begun, "a transaction is open while its call waits")
		_, err := s.order(t.Context(), "k", "pen")
		require.Equal(t, codes.Aborted, verdictOf(t, err).code, "in flight")
		release()
		<-done
		require.Equal(t, 1, l.commits)

		defer hold(t, b.k, "pen")()
		begun := time.Now()
		got, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		require.Equal(t, "charged", got)
		require.Zero(t, time.Since(begun), "a stored reply needs no lock")
	})
}

// A call that did not get its lock is as new when it is sent again, even if it
// is another one then.
func TestACallThatIsRefusedItsLockLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts []grpcmw.Option
		took time.Duration
	}{
		"by default": {nil, lockmw.DefaultWait},
		"a wait":     {[]grpcmw.Option{lockmw.Wait(time.Second)}, time.Second},
		"a deadline": {[]grpcmw.Option{lockmw.Wait(time.Hour)}, 15 * time.Second},
		"no wait":    {[]grpcmw.Option{lockmw.Refuse(), lockmw.Strict()}, 0},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			s, release := newShop(b.k, locked(c.opts...)), hold(t, b.k, "pen")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begun := time.Now()
			_, err := s.order(ctx, "k", "pen")
			v := verdictOf(t, err)
			require.Equal(t, codes.Aborted, v.code, name)
			require.Equal(t, "LOCK_BUSY", v.reason, name)
			require.Positive(t, v.retryIn, name)
			require.Equal(t, c.took, time.Since(begun), name)
			require.Zero(t, s.runs, name)
			got, err := s.order(t.Context(), "k", "paper")
			require.NoError(t, err, name)
			require.Equal(t, "paper", got, name)
			release()
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
