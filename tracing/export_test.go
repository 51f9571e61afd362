package tracing

import "go.opentelemetry.io/otel/trace"

// Printable is printable.
func Printable(s string, most int) string { return printable(s, most) }

// Remote is what a traceparent leads to.
func (o *Observer) Remote(traceparent string) trace.SpanContext { return o.remote(traceparent) }
