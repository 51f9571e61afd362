package grpcmw_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ledger is a database that counts what it commits.
type ledger struct {
	records.Records

	commits  int
	unheard  bool // the answers to commits are lost
	conflict bool // transactions are in conflict with others
}

var _ once.Transactional = (*ledger)(nil)

func (l *ledger) Transact(
	ctx context.Context, fn func(context.Context) (store.Record, error),
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

// A reply is on record together with what its handler has written, or neither
// is.
func TestRepliesInTheHandlersTransaction(t *testing.T) {
	t.Parallel()
	pen := &pb.SimpleResponse{Username: "pen"}
	for name, c := range map[string]struct {
		prepare func(*ledger, *script.Store)
		reply   *pb.SimpleResponse
		err     error
		want    verdict // zero: the reply
		commit  int
	}{
		"a reply":  {nil, pen, nil, verdict{}, 1},
		"an error": {nil, nil, errHandler, verdict{code: codes.NotFound}, 0},
		"too large": {
			nil, &pb.SimpleResponse{Username: strings.Repeat("x", 1<<20)}, nil,
			verdict{code: codes.Internal},
			0,
		},
		"in conflict": {
			func(l *ledger, _ *script.Store) { l.conflict = true }, pen, nil,
			verdict{code: codes.Aborted, reason: "LOCK_BUSY"},
			0,
		},
		"not known": {func(l *ledger, s *script.Store) {
			l.unheard = true
			s.Default(script.Prepare, script.Fail(errDown))
		}, pen, nil, verdict{code: codes.Unavailable, reason: "IDEMPOTENCY_UNKNOWN"}, 1},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			l := &ledger{Records: records.Of(b.k)}
			s := newShop(b.k, func(cfg *grpcmw.IdempotentConfig) { cfg.Recorder = l })
			s.handle = func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				if c.prepare != nil {
					c.prepare(l, b.store)
				}
				return c.reply, c.err
			}
			_, err := s.order(t.Context(), "k", "pen")
			require.Equal(t, c.commit, l.commits, name)
			v := verdictOf(t, err)
			v.retryIn = 0
			require.Equal(t, c.want, v, name)
			if c.commit > 0 {
				got, err := s.order(t.Context(), "k", "pen")
				require.NoError(t, err, name)
				require.Equal(t, "pen", got, name)
				require.Equal(t, 1, s.runs, name)
			}
		})
	}
}
