package renewer_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// inLoggedLimits runs f with a keeper that logs, on a store where others hold
// all three slots of the limit "account:42".
func inLoggedLimits(t *testing.T, f func(*testing.T, *renewer.Keeper, *logbook)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, b := memory.New(), new(logbook)
		others, err := renewer.New(store, config)
		require.NoError(t, err)
		cfg := config
		cfg.Observer = b.observer(slog.LevelInfo)
		k, err := renewer.New(store, cfg)
		require.NoError(t, err)
		var held []*renewer.Lease
		for range 3 {
			held = append(held, acquire(t, others, "account:42", renewer.Request{Limit: slots(3)}))
		}
		f(t, k, b)
		for _, l := range held {
			require.NoError(t, l.Release(t.Context()))
		}
		require.NoError(t, k.Shutdown(t.Context()))
		require.NoError(t, others.Shutdown(t.Context()))
		require.NotContains(t, b.String(), "account", "the name is shown as its hash")
	})
}

// A line about a limit says why the caller got no slot: it is full, by which
// number and with how many, or it is closed.
func TestRefusalsByALimitAreLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n          int
		request    renewer.Request
		timeout    time.Duration
		level, msg string
		limit      any
	}{
		"full": {
			n: 3, request: renewer.Request{MaxWait: 2 * time.Second},
			level: "WARN", msg: "limit is full", limit: 3.0,
		},
		"full, until the context ends": {
			n: 3, timeout: time.Second, level: "WARN", msg: "limit is full", limit: 3.0,
		},
		"full, as expected": {
			n: 3, request: renewer.Request{MaxWait: 2 * time.Second, RefusalExpected: true},
			level: "INFO", msg: "limit is full, as its caller expects", limit: 3.0,
		},
		"closed": {level: "WARN", msg: "limit is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLoggedLimits(t, func(t *testing.T, k *renewer.Keeper, b *logbook) {
				ctx := t.Context()
				if c.timeout > 0 {
					limited, cancel := context.WithTimeout(ctx, c.timeout)
					defer cancel()
					ctx = limited
				}
				c.request.Name, c.request.Limit = "account:42", slots(c.n)
				_, err := k.Acquire(ctx, c.request)
				require.Error(t, err)
				lines := b.lines(t, c.msg)
				require.Len(t, lines, 1, b.String())
				require.Equal(t, c.level, lines[0]["level"])
				require.Equal(t, hashOfAccount, lines[0]["lock_hash"])
				require.Equal(t, c.limit, lines[0]["limit"])
				require.Equal(t, c.limit, lines[0]["limit_held"])
				if c.n == 0 {
					require.Equal(t, "lockbeat: acquire a lock: refused: the limit is 0, closed",
						lines[0]["error"])
				}
			})
		})
	}
}

// A wait that came to a slot says by which number, the one that let it in.
func TestAWaitForASlotIsLogged(t *testing.T) {
	t.Parallel()
	inLoggedLimits(t, func(t *testing.T, k *renewer.Keeper, b *logbook) {
		begun := time.Now()
		l := acquire(t, k, "account:42", renewer.Request{Limit: func() int {
			if time.Since(begun) > time.Second {
				return 4
			}
			return 3
		}})
		require.NoError(t, l.Release(t.Context()))
		lines := b.lines(t, "lock acquired after a wait")
		require.Len(t, lines, 1)
		require.EqualValues(t, 4, lines[0]["limit"])
		require.EqualValues(t, 3, lines[0]["limit_held"])
	})
}

// Processes that disagree about a limit are told of once, by a line that says
// both numbers.
func TestADisagreementAboutALimitIsLogged(t *testing.T) {
	t.Parallel()
	inLoggedLimits(t, func(t *testing.T, k *renewer.Keeper, b *logbook) {
		for range 3 {
			_, err := k.Acquire(t.Context(), renewer.Request{
				Name: "account:42", Limit: slots(2), Try: true,
			})
			require.ErrorIs(t, err, renewer.ErrBusy)
			waitFor(2 * time.Second)
		}
		lines := b.lines(t, "trouble with locks")
		require.Len(t, lines, 1)
		require.Equal(t, "WARN", lines[0]["level"])
		require.Equal(t, "limit", lines[0]["doing"])
		require.Equal(t, hashOfAccount, lines[0]["lock_hash"])
		require.Contains(t, lines[0]["error"], "3 hold it, and this process admits 2")
	})
}
