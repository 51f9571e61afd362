package tracing_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/tracing"
)

// engineAllocs is what acquire and release took on a store in memory before there were observers,
// and one that the race detector adds.
const engineAllocs = 9 + 1

// A keeper without an observer pays nothing.
//
//nolint:paralleltest // allocations are counted for the whole process
func TestNoObserverAllocatesNothing(t *testing.T) {
	k := newKeeper(t, memory.New(), nil)
	ctx := t.Context()
	var err error
	allocs := testing.AllocsPerRun(1000, func() {
		var l *renewer.Lease
		if l, err = k.Acquire(ctx, "a", renewer.Operation("charge")); err == nil {
			err = l.Release(ctx)
		}
	})
	require.NoError(t, err)
	require.LessOrEqual(t, allocs, float64(engineAllocs))
}

// Metrics alone add nothing to what an acquire costs without them, a limit's included.
//
//nolint:paralleltest // allocations are counted for the whole process
func TestMetricsAllocateNothing(t *testing.T) {
	for _, limit := range []int{0, 3} {
		count := func(metrics tracing.Option) float64 {
			o := tracing.New(noSpans, metrics)
			return testing.AllocsPerRun(1000, func() { lifeOf(context.Background(), o, limit) })
		}
		require.Equal(t, count(noMetrics), count(metricsTo(t))) //nolint:testifylint // whole numbers
	}
}
