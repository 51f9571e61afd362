package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/tracing"
)

var (
	noSpans   = tracing.WithTracerProvider(tracenoop.NewTracerProvider())
	noMetrics = tracing.WithMeterProvider(metricnoop.NewMeterProvider())
)

// spansTo are spans exported in batches to nowhere, as by the program
// whose request has this context.
func spansTo(tb testing.TB, sampled bool) (tracing.Option, context.Context) {
	tb.Helper()
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	tb.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return tracing.WithTracerProvider(p), trace.ContextWithRemoteSpanContext(context.Background(),
		parent(sampled))
}

// parent is the span of a caller elsewhere.
func parent(sampled bool) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
		TraceFlags: trace.TraceFlags(0).WithSampled(sampled), Remote: true,
	})
}

// metricsTo are metrics that are never read.
func metricsTo(tb testing.TB) tracing.Option {
	tb.Helper()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	tb.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return tracing.WithMeterProvider(p)
}

// life is all that an observer hears of a lock that is acquired and released without further ado.
func life(ctx context.Context, o renewer.Observer) {
	start := renewer.AcquireStart{Name: "order:42", Operation: "charge"}
	ctx = o.AcquireStart(ctx, start)
	_ = o.Claim(ctx)
	ctx = o.AcquireEnd(ctx, renewer.AcquireEnd{
		AcquireStart: start, Wait: time.Millisecond,
		Attempts: 1, Fence: 1,
	})
	o.Released(ctx, renewer.Released{
		Name: "order:42", Operation: "charge", Fence: 1,
		Held: time.Second,
	})
}

// What the observer costs an operation: acquire and release together.
func BenchmarkObserver(b *testing.B) {
	for _, metrics := range []bool{false, true} {
		for _, spans := range []string{"none", "unsampled", "sampled"} {
			b.Run(fmt.Sprintf("spans=%s/metrics=%v", spans, metrics), func(b *testing.B) {
				ctx, opts := context.Background(), []tracing.Option{noSpans, noMetrics}
				if spans != "none" {
					opts[0], ctx = spansTo(b, spans == "sampled")
				}
				if metrics {
					opts[1] = metricsTo(b)
				}
				o := tracing.New(opts...)
				b.ReportAllocs()
				for b.Loop() {
					life(ctx, o)
				}
			})
		}
	}
}

var errDown = errors.New("connection refused")

// renewal is all that an observer hears of a batch.
func renewal(ctx context.Context, o renewer.Observer) {
	ctx = o.RenewStart(ctx, renewer.RenewStart{Leases: 3})
	o.Renewed(ctx, renewer.Renewed{
		Leases: 3, OK: 1, Gone: 1, Failed: 1, Lag: time.Millisecond,
		Err: errDown,
	})
}

// newKeeper is a keeper whose observer may be nil, shut down when tb ends.
func newKeeper(tb testing.TB, store contract.Store, o renewer.Observer) *renewer.Keeper {
	tb.Helper()
	k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL, Node: "here", Observer: o})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = k.Shutdown(context.Background()) })
	return k
}
