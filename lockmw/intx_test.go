package lockmw_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/intx"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// Requests that waited for a lock in a transaction each stood in the way of its
// holder, who needed a connection of the same pool, and nobody was told.
func TestALockThatIsWaitedForInATransactionIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ask  func(ctx context.Context, k *renewer.Keeper) error
		told string
	}{
		"a lock":          {asking("a"), "a"},
		"a limit":         {asking(lockmw.Limit("a", 3)), "a"},
		"several":         {asking(lockmw.All("held", "a", "b")), "a"},
		"without a wait":  {asking("a", lockmw.Refuse()), ""},
		"or skipping":     {asking("a", lockmw.Skip()), ""},
		"one that it has": {asking("held"), ""},
		"several it has":  {asking(lockmw.All("held", "kept")), ""},
		"the newest":      {asking("a", lockmw.Replace()), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := new(webtest.Faults)
			k := webtest.Keeper(t, memory.New(), func(c *renewer.Config) { c.Observer = o })
			first := new(sync.Once)
			err := lockmw.Run(t.Context(), k, lockmw.All("held", "kept"),
				func(ctx context.Context) error {
					for range 2 {
						if err := c.ask(intx.Mark(ctx, first), k); err != nil {
							return err
						}
					}
					return c.ask(ctx, k) // outside of it
				})
			require.NoError(t, err)
			if c.told == "" {
				require.Empty(t, o.All())
				return
			}
			require.Len(t, o.All(), 1)
			fault := o.All()[0]
			assert.Equal(t, c.told, fault.Name)
			require.ErrorIs(t, fault.Err, renewer.ErrConfig)
			assert.Contains(t, fault.Err.Error(), `"pay"`)
			assert.Contains(t, fault.Err.Error(), "once.Under", "the cure")
		})
	}
}

// Nor was anybody who had not asked to hear of it.
func TestALockInATransactionIsReportedWithoutAnObserver(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	k := webtest.Keeper(t, memory.New(), func(c *renewer.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	require.NoError(t, asking("a")(intx.Mark(t.Context(), new(sync.Once)), k))
	require.Contains(t, log.String(), `msg="locks are set up wrongly" doing="wait for a lock"`)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
}

func asking[N lockmw.Name](
	name N, opts ...lockmw.Option,
) func(context.Context, *renewer.Keeper) error {
	return func(ctx context.Context, k *renewer.Keeper) error {
		err := lockmw.Run(ctx, k, name, func(context.Context) error { return nil },
			append(opts, lockmw.Operation("pay"))...)
		return err
	}
}
