package fence_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
	"github.com/lockbeat/lockbeat/renewer"
)

// of is the fence of some locks, with the token 2.
func of(d fence.Dialect, names ...string) *fence.Fence {
	f := &fence.Fence{Dialect: d}
	for _, name := range names {
		f.Locks = append(f.Locks, fence.Lock{Name: name, Token: 2})
	}
	return f
}

// Raises of one lock stand in line. One that waits for a former holder keeps no
// other lock's waiting, also if both are inside of a third, which is raised.
func TestRaisesOfOneLockStandInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &fence.Guard{Dialect: mysql}
		raised := 0
		at := func() error { raised++; return nil }
		require.NoError(t, g.Raise(t.Context(), of(mysql, "a"), at))
		former := make(chan struct{})
		waits := func() error { <-former; return nil }
		go func() { assert.NoError(t, g.Raise(t.Context(), of(mysql, "a", "b"), waits)) }()
		synctest.Wait()
		require.NoError(t, g.Raise(t.Context(), of(mysql, "a", "c"), at))
		require.Equal(t, 2, raised)
		go func() { assert.NoError(t, g.Raise(t.Context(), of(mysql, "b"), at)) }()
		synctest.Wait()
		require.Equal(t, 2, raised, "it waits")
		close(former)
		synctest.Wait()
		require.Equal(t, 2, raised, "which was done for it")
	})
}

// What is high enough is not raised, a row that is higher is a loss, and a table
// that is not by its name refuses nothing.
func TestWhatIsLow(t *testing.T) {
	t.Parallel()
	f := of(mysql, "a", "b", "c")
	low, err := f.Low([][]string{{"a", "2"}, {"b", "1"}})
	require.NoError(t, err)
	assert.Equal(t, of(mysql, "b", "c"), low)
	low, err = f.Low([][]string{{"a", "2"}, {"b", "2"}, {"c", "2"}})
	require.NoError(t, err)
	assert.Nil(t, low)
	_, err = f.Low([][]string{{"a", "2"}, {"b", "3"}})
	require.ErrorIs(t, err, renewer.ErrLost)
	_, err = f.Low([][]string{{"a", "3"}, {"a", "2"}, {"b", "2"}, {"c", "2"}})
	require.ErrorIs(t, err, renewer.ErrRejected)
	require.ErrorContains(t, err, "several rows")
}
