package tracing_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

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
		if l, err = k.Acquire(ctx, renewer.Request{Name: "a", Operation: "charge"}); err == nil {
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
		without, with := count(noMetrics), count(metricsTo(t))
		require.Equal(t, without, with) //nolint:testifylint // whole numbers
	}
}

// BenchmarkObserver measures what tracing's text says of its cost.
func BenchmarkObserver(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{
		"caller=unsampled": sdktrace.NeverSample(), "caller=sampled": sdktrace.AlwaysSample(),
	} {
		b.Run(name, func(b *testing.B) {
			p := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler),
				sdktrace.WithBatcher(tracetest.NewNoopExporter()))
			defer func() { _ = p.Shutdown(context.Background()) }()
			ctx, caller := p.Tracer("caller").Start(b.Context(), "caller")
			defer caller.End()
			o := tracing.New(tracing.WithTracerProvider(p), metricsTo(b))
			b.ReportAllocs()
			for b.Loop() {
				life(ctx, o)
			}
		})
	}
}
