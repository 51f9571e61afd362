package main

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// trace sends the traces of two transfers to a collector.
func trace(ctx context.Context, redis redisstore.Deployment, observer renewer.Observer) {
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpoint(tracesAddr), otlptracehttp.WithInsecure())
	must(err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	defer provider.Shutdown(ctx)
	otel.SetTracerProvider(provider)

	keeper, closeLocks := openLocks(redis, observer) // tracing.New() is in it: see newObserver
	defer closeLocks()

	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			ctx, span := otel.Tracer("bank").Start(ctx, "transfer")
			defer span.End()
			_, err := lockmw.Do(ctx, keeper, accountLock("7"),
				func(ctx context.Context) (any, error) { return nil, transfer(ctx, "7", "8") })
			must(err)
		})
	}
	callers.Wait()
}
