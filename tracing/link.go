package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceparent is what others may read of the span in ctx while the lock is
// held, in W3C's form: "" unless it is sampled, since a link to a span that
// goes nowhere leads nowhere.
func traceparent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsSampled() {
		return ""
	}
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
}

// remote is the span that a traceparent of version 00 leads to, the zero value
// if it is none that can be linked to. Any program that can write to the lock
// store may have written it.
func remote(traceparent string) trace.SpanContext {
	if len(traceparent) != 55 {
		return trace.SpanContext{}
	}
	sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": traceparent}))
	if !sc.IsSampled() {
		return trace.SpanContext{}
	}
	return sc
}
