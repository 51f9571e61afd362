package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// holdKey finds the span context of the innermost lockbeat.hold.
type holdKey struct{}

// Link returns a link to the innermost lockbeat.hold that ctx runs under, for
// spans that are not below it, such as those of a leader's work (locks that it
// takes have one by themselves):
//
//	ctx, span := tracer.Start(ctx, "report", trace.WithLinks(tracing.Link(ctx)))
//
// If there is none, or it is not sampled, the link is zero, which OpenTelemetry
// ignores.
func Link(ctx context.Context) trace.Link {
	hold, _ := ctx.Value(holdKey{}).(trace.SpanContext)
	return trace.Link{SpanContext: hold}
}

// rootless is ctx without a span: what starts in it begins a trace of its own.
// The trace of a lock that is held for weeks would grow for as long, and be
// sampled as a whole or not at all.
func rootless(ctx context.Context) context.Context {
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(context.Background()))
}
