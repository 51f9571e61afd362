package tracing_test

import (
	"context"
	"fmt"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/tracing"
)

// One field of the keeper's configuration, and every lock is seen. What runs under a lock is
// below its lockbeat.hold; a call that was refused is linked to the one that had the lock.
func Example() {
	ctx := context.Background()
	// in production your program's provider, global or by WithTracerProvider
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	tracer := provider.Tracer("bank")

	keeper, err := renewer.New(memory.New(), renewer.Config{
		TTL:      renewer.DefaultTTL,
		Observer: tracing.New(tracing.WithTracerProvider(provider)),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(ctx) }()

	transfer := func(ctx context.Context) (string, error) {
		_, span := tracer.Start(ctx, "debit")
		defer span.End()
		// Another caller wants the same account meanwhile.
		other, request := tracer.Start(context.Background(), "GET /accounts/42")
		defer request.End()
		return lockmw.Do(other, keeper, "account:42", func(context.Context) (string, error) {
			return "", nil
		}, lockmw.Refuse())
	}
	ctx, request := tracer.Start(ctx, "POST /accounts/42/transfer")
	_, _ = lockmw.Do(ctx, keeper, "account:42", transfer, lockmw.Operation("transfer"),
		lockmw.Wait(time.Second))
	request.End()

	names := make(map[trace.SpanID]string)
	for _, span := range spans.Ended() {
		names[span.SpanContext().SpanID()] = span.Name()
	}
	for _, span := range spans.Ended() {
		fmt.Printf("%s is below %q", span.Name(), names[span.Parent().SpanID()])
		for _, link := range span.Links() {
			fmt.Printf(" and linked to %q", names[link.SpanContext.SpanID()])
		}
		fmt.Println()
	}
	// Output:
	// lockbeat.acquire is below "POST /accounts/42/transfer"
	// lockbeat.acquire is below "GET /accounts/42" and linked to "lockbeat.hold"
	// GET /accounts/42 is below ""
	// debit is below "lockbeat.hold"
	// lockbeat.hold is below "POST /accounts/42/transfer"
	// POST /accounts/42/transfer is below ""
}
