package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceparentField = "traceparent"
	// traceparentLen is the length of a traceparent of version 00, the only one that there is.
	traceparentLen = 55
)

// traceparent is what others may read of the span in ctx while the lock is held:
// "" unless it is sampled, since a link to a span that goes nowhere leads nowhere.
func (s *settings) traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	var c carrier
	s.propagator.Inject(ctx, &c)
	return string(c)
}

// remote is the span that a traceparent leads to, the zero value if it is none
// that can be linked to. Any program that can write to the lock store may have written it.
func (s *settings) remote(traceparent string) trace.SpanContext {
	if len(traceparent) != traceparentLen {
		return trace.SpanContext{}
	}
	c := carrier(traceparent)
	sc := trace.SpanContextFromContext(s.propagator.Extract(context.Background(), &c))
	if !sc.IsValid() || !sc.IsSampled() {
		return trace.SpanContext{}
	}
	return sc
}

// carrier is a TextMapCarrier with room for nothing but a traceparent.
type carrier string

var _ propagation.TextMapCarrier = (*carrier)(nil)

// Get returns the traceparent, and nothing of any other field.
func (c *carrier) Get(key string) string {
	if key == traceparentField {
		return string(*c)
	}
	return ""
}

// Set takes the traceparent, and nothing of any other field.
func (c *carrier) Set(key, value string) {
	if key == traceparentField {
		*c = carrier(value)
	}
}

// Keys lists the one field.
func (c *carrier) Keys() []string { return []string{traceparentField} }
