package grpcmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestACallThatLosesItsLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failed error                              // the handler's own
		other  func(ctx context.Context, s *shop) // what another call does meanwhile
		want   verdict                            // zero: the other call's reply
	}{
		"and fails": {errHandler, nil, verdict{code: codes.Aborted, reason: grpcmw.ReasonLost}},
		"and another has it": {
			nil, func(ctx context.Context, s *shop) {
				started := make(chan struct{})
				s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					close(started)
					elapse(time.Minute)
					return &pb.SimpleResponse{}, nil
				}
				go func() { _, _ = s.order(ctx, "k", "pen") }()
				<-started
			},
			verdict{code: codes.Aborted, reason: grpcmw.ReasonLost},
		},
		"and another was first": {
			nil, func(ctx context.Context, s *shop) {
				s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					return &pb.SimpleResponse{Username: "second"}, nil
				}
				got, err := s.order(ctx, "k", "pen")
				assert.NoError(t, err)
				assert.Equal(t, "second", got)
			},
			verdict{},
		},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			s := newShop(b.k)
			s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				b.store.Delete(b.store.Calls(script.Acquire)[0].Claims[0].Name)
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), renewer.ErrLost, name)
				if c.other != nil {
					c.other(context.WithoutCancel(t.Context()), s)
				}
				return &pb.SimpleResponse{Username: "first"}, c.failed
			}
			got, err := s.order(t.Context(), "k", "pen")
			if c.want == (verdict{}) {
				assert.NoError(t, err, name)
				assert.Equal(t, "second", got, "the one on record is everybody's")
				return
			}
			assert.Equal(t, c.want, verdictOf(t, err), name)
			assert.ErrorIs(t, err, renewer.ErrLost, name)
			if c.failed != nil {
				assert.ErrorIs(t, err, c.failed, name)
			}
			elapse(2 * time.Minute) // until the other call has returned
		})
	}
}

func TestAHandlerThatPanics(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			panic("boom")
		}
		require.PanicsWithValue(t, "boom", func() { _, _ = s.order(t.Context(), "k", "pen") })
		s.handle = func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			assert.Positive(t, lockmw.Fence(ctx))
			return &pb.SimpleResponse{}, nil
		}
		_, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		require.Equal(t, 2, s.runs)
	})
}

func TestCallsWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		for _, op := range []script.Op{script.Acquire, script.Read} {
			b.store.Default(op, script.Fail(errors.New("connection refused")))
		}
		_, err := s.order(t.Context(), "k", "pen")
		require.Equal(t, grpcmw.ReasonUnavailable, verdictOf(t, err).reason)
		require.Zero(t, s.runs)
	})
}
