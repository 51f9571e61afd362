package tracing

import "go.opentelemetry.io/otel/trace"

// What tests of other packages' making need to know.
const (
	MostAttempts   = maxAttempts
	MostOperations = mostOperations
	MostLinks      = mostLinks
)

// Printable is printable.
func Printable(s string, most int) string { return printable(s, most) }

// Remote is what a traceparent leads to.
func (o *Observer) Remote(traceparent string) trace.SpanContext { return o.remote(traceparent) }
