package lease_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
)

type key struct{}

// However late the context is asked for, it is the same, and ends with the
// first cause.
func TestAnOperationsContext(t *testing.T) {
	t.Parallel()
	values := context.WithValue(t.Context(), key{}, "value")
	begun := func() *lease.Operation {
		o := new(lease.Operation)
		assert.False(t, o.Begun())
		o.Begin(values)
		assert.True(t, o.Begun())
		return o
	}
	t.Run("asked for before the end", func(t *testing.T) {
		t.Parallel()
		o := begun()
		assert.Equal(t, values, o.Seen())
		assert.Nil(t, o.Made())
		c := o.Context()
		assert.Same(t, c, o.Context())
		assert.Equal(t, c.Ctx, o.Seen())
		assert.Equal(t, "value", c.Ctx.Value(key{}))
		o.End(errDown)
		o.End(lease.ErrReleased)
		require.ErrorIs(t, context.Cause(c.Ctx), errDown)
	})
	t.Run("asked for after a release", func(t *testing.T) {
		t.Parallel()
		o := begun()
		o.End(lease.ErrReleased)
		assert.Nil(t, o.Made(), "it costs no context")
		assert.Equal(t, values, o.Seen())
		require.ErrorIs(t, o.Context().Ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(o.Context().Ctx), lease.ErrReleased)
		other := begun()
		other.End(lease.ErrReleased)
		assert.Same(t, other.Context(), o.Context())
	})
	t.Run("asked for after a loss", func(t *testing.T) {
		t.Parallel()
		o := begun()
		o.End(errDown)
		require.ErrorIs(t, context.Cause(o.Context().Ctx), errDown)
		assert.Equal(t, "value", o.Seen().Value(key{}))
	})
	t.Run("a question's, and then the operation's", func(t *testing.T) {
		t.Parallel()
		o, room := new(lease.Operation), new(lease.Context)
		o.Ask(t.Context(), room)
		assert.Same(t, room, o.Made())
		o.Begin(values)
		assert.Same(t, room, o.Context())
		o.Drop()
		require.Error(t, room.Ctx.Err())
		assert.Nil(t, o.Made())
		o.Drop() // there is none
		assert.NotSame(t, room, o.Context())
	})
}
