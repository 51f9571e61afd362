package gocronmw_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// elector is that of a node.
func (b *bed) elector(k *renewer.Keeper, opts ...gocronmw.ElectorOption) *gocronmw.Elector {
	b.t.Helper()
	e, err := gocronmw.NewElector(b.t.Context(), k, "scheduler", opts...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = e.Close() })
	synctest.Wait() // so that the first one leads
	return e
}

// Each node counts from its own start; one of them runs what it has,
// and the next one when that has gone.
func TestElector(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		var electors []*gocronmw.Elector
		var schedulers []gocron.Scheduler
		for i := range 3 {
			node := fmt.Sprint(i)
			e := b.elector(b.keeper(node))
			s := b.scheduler(gocron.WithDistributedElector(e))
			_, err := s.NewJob(gocron.DurationJob(minute), b.task(node))
			require.NoError(t, err)
			s.Start()
			electors, schedulers = append(electors, e), append(schedulers, s)
			elapse(7 * time.Second)
		}
		elapse(10 * minute)
		synctest.Wait()
		ran, _ := b.log.runs(nil)
		assert.Equal(t, "0000000000", strings.Join(ran, ""))

		stop(t, schedulers[0])
		require.NoError(t, electors[0].Close())
		require.NoError(t, electors[0].Close(), "again")
		elapse(10 * minute)
		synctest.Wait()
		ran, _ = b.log.runs(nil)
		assert.Len(t, ran, 20)
		assert.NotContains(t, ran[10:], "0")
		assert.Equal(t, 10, strings.Count(strings.Join(ran[10:], ""), ran[10]))
	})
}

// The clock of a new leader may be behind: it begins when it has passed what the old one has run.
func TestElectorSettles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts []gocronmw.ElectorOption
		want time.Duration
	}{
		{nil, gocronmw.DefaultSettle},
		{[]gocronmw.ElectorOption{gocronmw.Settle(5 * time.Second)}, 5 * time.Second},
		{[]gocronmw.ElectorOption{gocronmw.Settle(0)}, 0},
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			first := b.elector(b.keeper("a"))
			second := b.elector(b.keeper("b"), c.opts...)
			elapse(minute)
			require.NoError(t, first.IsLeader(t.Context()))
			require.ErrorIs(t, second.IsLeader(t.Context()), gocronmw.ErrNotLeader)
			require.NoError(t, first.Close())
			require.ErrorIs(t, first.IsLeader(t.Context()), gocronmw.ErrNotLeader)
			if c.want > 0 {
				elapse(c.want - 1)
				require.ErrorIs(t, second.IsLeader(t.Context()), gocronmw.ErrNotLeader)
				elapse(1)
			}
			synctest.Wait()
			require.NoError(t, second.IsLeader(t.Context()))
		})
	}
}

// A leader knows by the clock that it leads no longer, and leads again when it can.
func TestElectorLosesTheLead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		e := b.elector(b.keeper("a"))
		elapse(minute)
		require.NoError(t, e.IsLeader(t.Context()))
		b.store.Default(script.Renew, script.Hang())
		b.store.Default(script.Acquire, script.Hang())
		elapse(renewer.DefaultTTL)
		require.ErrorIs(t, e.IsLeader(t.Context()), gocronmw.ErrNotLeader)
		b.store.Default(script.Renew, script.Pass())
		b.store.Default(script.Acquire, script.Pass())
		elapse(minute)
		require.NoError(t, e.IsLeader(t.Context()))
	})
}

// The keeper's MaxHold bounds jobs, and not how long a node leads.
func TestElectorLeadsOnPastMaxHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		e := b.elector(b.keeper("a", func(c *renewer.Config) { c.MaxHold = 2 * minute }))
		elapse(6*minute + time.Second)
		require.NoError(t, e.IsLeader(t.Context()))
		require.Len(t, b.store.Calls(script.Acquire), 1, "terms")
	})
}

// Why a node stands for election no longer is told.
func TestElectorEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		k := b.keeper("a")
		ctx, cancel := context.WithCancel(t.Context())
		e, err := gocronmw.NewElector(ctx, k, "scheduler")
		require.NoError(t, err)
		elapse(minute)
		require.NoError(t, e.IsLeader(ctx))
		cancel()
		synctest.Wait()
		err = e.IsLeader(t.Context())
		require.ErrorIs(t, err, gocronmw.ErrNotLeader)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, e.Close())

		require.NoError(t, k.Shutdown(t.Context()))
		e = b.elector(k)
		err = e.IsLeader(t.Context())
		require.ErrorIs(t, err, gocronmw.ErrNotLeader)
		require.ErrorIs(t, err, renewer.ErrShutdown)
		require.ErrorIs(t, e.Close(), renewer.ErrShutdown)
	})
}

func TestElectorRefusals(t *testing.T) {
	t.Parallel()
	_, err := gocronmw.NewElector(t.Context(), nil, "scheduler")
	require.ErrorIs(t, err, renewer.ErrConfig)
	inBubble(t, func(t *testing.T, b *bed) {
		_, err := gocronmw.NewElector(t.Context(), b.keeper("a"), "", gocronmw.Settle(-1))
		require.ErrorIs(t, err, renewer.ErrName)
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "Settle is -1ns")
	})
}
