package tracing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/tracing"
)

var (
	noSpans   = tracing.WithTracerProvider(tracenoop.NewTracerProvider())
	noMetrics = tracing.WithMeterProvider(metricnoop.NewMeterProvider())
)

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
func life(ctx context.Context, o renewer.Observer) { lifeOf(ctx, o, 0) }

// lifeOf is life, of a slot that was waited for if limit is above 0.
func lifeOf(ctx context.Context, o renewer.Observer, limit int) {
	start := renewer.AcquireStart{Name: "order:42", Operation: "charge", Limit: limit}
	ctx = o.AcquireStart(ctx, start)
	_ = o.Claim(ctx)
	ctx = o.AcquireEnd(ctx, renewer.AcquireEnd{
		AcquireStart: start, Wait: time.Millisecond,
		Attempts: 1, Fence: 1, Contended: limit > 0, Held: limit,
	})
	o.Released(ctx, renewer.Released{
		Name: "order:42", Operation: "charge", Fence: 1,
		Held: time.Second,
	})
}

var errDown = errors.New("connection refused")

// newKeeper is a keeper whose observer may be nil, shut down when tb ends.
func newKeeper(tb testing.TB, store renewer.Store, o renewer.Observer) *renewer.Keeper {
	tb.Helper()
	k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL, Node: "here", Observer: o})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel() // a test that has failed holds leases still
		_ = k.Shutdown(ctx)
	})
	return k
}
