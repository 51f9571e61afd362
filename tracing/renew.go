package tracing

import (
	"bytes"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
)

// mostLinks bounds the links of a batch, as the SDK does by default.
const mostLinks = 128

// RenewStart starts lockbeat.renew if that is wanted, and keeps
// others from making a span of the heartbeat if not.
func (o *observer) RenewStart(ctx context.Context, e renewer.RenewStart) context.Context {
	if !o.renewSpans {
		return quiet(ctx)
	}
	links := make([]trace.Link, 0, min(e.Leases, mostLinks))
	for lease := range e.Contexts {
		if len(links) == mostLinks {
			break
		}
		if r := o.find(lease); r != nil && r.hold != nil && r.hold.SpanContext().IsSampled() {
			links = append(links, trace.Link{SpanContext: r.hold.SpanContext()})
		}
	}
	beat, span := o.tracer.Start(ctx, spanRenew, trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithLinks(links...),
		trace.WithAttributes(append(o.static, attribute.Int(keyLeases, e.Leases))...))
	if !span.SpanContext().IsValid() { // we make no spans here, but the Redis client may
		return quiet(ctx)
	}
	return beat
}

// Renewed counts renewals, and ends lockbeat.renew.
func (o *observer) Renewed(ctx context.Context, e renewer.Renewed) {
	o.renewLag.Record(ctx, e.Lag.Seconds(), o.batch...)
	if e.OK > 0 {
		o.renewals.Add(ctx, int64(e.OK), o.renewed...)
	}
	if e.Gone > 0 {
		o.renewals.Add(ctx, int64(e.Gone), o.renewGone...)
	}
	if e.Failed > 0 {
		o.renewals.Add(ctx, int64(e.Failed), o.renewsFail...)
	}
	if !o.renewSpans {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.Float64(keyLag, e.Lag.Seconds()),
		attribute.Int(keyLeasesGone, e.Gone), attribute.Int(keyLeasesFailed, e.Failed))
	if e.Err != nil {
		span.SetAttributes(o.errorAttributes(e.Err)...)
		span.SetStatus(codes.Error, "leases not renewed yet")
	}
	span.End()
}

// CleanUp keeps the Redis client from making spans of clean-ups, which belong
// to no request.
func (o *observer) CleanUp(ctx context.Context) context.Context { return quiet(ctx) }

// nowhere is a span that is not sampled. A sampler that follows the parent
// makes nothing of what is done below it, and one that draws lots by the
// trace's number draws this one last.
var nowhere = trace.NewSpanContext(trace.SpanContextConfig{
	TraceID: trace.TraceID(bytes.Repeat([]byte{0xff}, 16)),
	SpanID:  trace.SpanID(bytes.Repeat([]byte{0xff}, 8)),
})

func quiet(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, nowhere)
}
