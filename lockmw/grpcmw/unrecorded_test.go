package grpcmw_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/script"
)

// The store is down when the handler has returned: its reply goes out all the same.
func TestAReplyThatCantBeRecorded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bubble) {
		s := newShop(b.k)
		b.store.Default(script.Write, script.Fail(errors.New("connection refused")))
		_, err := s.order(t.Context(), "k", "pen")
		require.NoError(t, err)
		b.store.Default(script.Write, script.Pass())
		for range 2 {
			_, err = s.order(t.Context(), "k", "pen")
			require.NoError(t, err)
		}
		require.Equal(t, 2, s.runs, "it was carried out again, and is on record now")
	})
}
