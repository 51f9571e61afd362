package grpcmw_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The store is down when the handler has returned. With OnlyRecorded the first client is not told
// what no other will be.
func TestAReplyThatCantBeRecorded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts  []grpcmw.IdempotentOption
		first verdict
	}{
		"goes out by default": {nil, verdict{}},
		"does not go out with OnlyRecorded": {
			[]grpcmw.IdempotentOption{grpcmw.OnlyRecorded()},
			verdict{code: codes.Unavailable, reason: grpcmw.ReasonUnknown},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bubble) {
				s := newShop(b.k, c.opts...)
				b.store.Default(script.Write, script.Fail(errors.New("connection refused")))
				_, err := s.order(t.Context(), "k", "pen")
				v := verdictOf(t, err)
				c.first.retryIn = v.retryIn
				require.Equal(t, c.first, v)
				require.Equal(t, c.first.code != codes.OK, v.retryIn > 0)
				b.store.Default(script.Write, script.Pass())
				for range 2 {
					_, err = s.order(t.Context(), "k", "pen")
					require.NoError(t, err)
				}
				require.Equal(t, 2, s.runs, "it was carried out again, and is on record now")
			})
		})
	}
}
