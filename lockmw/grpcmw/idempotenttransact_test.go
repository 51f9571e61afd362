package grpcmw_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ledger is a database that counts what it commits.
type ledger struct {
	*renewer.Keeper

	commits int
	unheard bool // the answers to commits are lost

	conflict bool // transactions are in conflict with others
}

var _ once.Transactional = (*ledger)(nil)

func (l *ledger) Transact(
	ctx context.Context, fn func(context.Context) (renewer.Record, error),
) error {
	record, err := fn(ctx)
	if err == nil && l.conflict {
		err = &renewer.Error{Op: "commit", Kind: once.ErrConflict}
	}
	if err == nil {
		err = l.Write(context.WithoutCancel(ctx), record)
	}
	if err != nil {
		return err
	}
	l.commits++
	if l.unheard {
		return &renewer.Error{Op: "commit", Kind: renewer.ErrUnavailable}
	}
	return nil
}

// A reply is on record together with what its handler has written, or neither is.
func TestRepliesInTheHandlersTransaction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle func(*ledger, *script.Store) (*pb.SimpleResponse, error)
		want   verdict // zero: the reply
		commit int
	}{
		"a reply": {func(*ledger, *script.Store) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{Username: "pen"}, nil
		}, verdict{}, 1},
		"an error": {func(*ledger, *script.Store) (*pb.SimpleResponse, error) {
			return nil, errHandler
		}, verdict{code: status.Code(errHandler)}, 0},
		"too large": {func(*ledger, *script.Store) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{Username: strings.Repeat("x", 1<<20)}, nil
		}, verdict{code: codes.Internal}, 0},
		"in conflict": {func(l *ledger, _ *script.Store) (*pb.SimpleResponse, error) {
			l.conflict = true
			return &pb.SimpleResponse{Username: "pen"}, nil
		}, verdict{code: codes.Aborted, reason: grpcmw.ReasonBusy}, 0},
		"not known": {func(l *ledger, s *script.Store) (*pb.SimpleResponse, error) {
			l.unheard = true
			s.Default(script.Prepare, script.Fail(errDown))
			return &pb.SimpleResponse{Username: "pen"}, nil
		}, verdict{code: codes.Unavailable, reason: grpcmw.ReasonUnknown}, 1},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			l := &ledger{Keeper: b.k}
			s := newShop(b.k, grpcmw.RecordIn(l))
			s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				return c.handle(l, b.store)
			}
			got, err := s.order(t.Context(), "k", "pen")
			assert.Equal(t, c.commit, l.commits, name)
			if c.want == (verdict{}) {
				require.NoError(t, err, name)
				assert.Equal(t, "pen", got)
			} else {
				got := verdictOf(t, err)
				got.retryIn = 0
				assert.Equal(t, c.want, got, name)
			}
			if c.commit == 0 {
				return
			}
			got, err = s.order(t.Context(), "k", "pen")
			require.NoError(t, err, name)
			assert.Equal(t, "pen", got, name)
			assert.Equal(t, 1, s.runs, name)
		})
	}
	assert.Panics(t, func() { grpcmw.RecordIn(nil) })
}
