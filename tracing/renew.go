package tracing

import (
	"bytes"
	"context"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
)

// mostLinks bounds the links of a batch, as the SDK does by default.
const mostLinks = 128

// RenewStart starts lockbeat.renew if that is wanted, and keeps
// others from making a span of the heartbeat if not.
func (o *Observer) RenewStart(ctx context.Context, e renewer.RenewStart) context.Context {
	if !o.renewSpans {
		return o.quieten(ctx)
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
	opts := append(slices.Clip(o.beat), trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int(keyLeases, e.Leases)))
	beat, span := o.tracer.Start(ctx, o.beatName, opts...)
	if !span.SpanContext().IsValid() { // we make no spans here, but the Redis client may
		return o.quieten(ctx)
	}
	return beat
}

// Renewed counts renewals, and ends lockbeat.renew.
func (o *Observer) Renewed(ctx context.Context, e renewer.Renewed) {
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

// CleanUp keeps the Redis client from making spans of clean-ups, which belong to no request.
func (o *Observer) CleanUp(ctx context.Context) context.Context { return o.quieten(ctx) }

// nowhere is the context of a span that is not sampled. A sampler
// that follows the parent makes nothing of what is done below it, and
// one that draws lots by the trace's number draws this one last.
var nowhere = trace.ContextWithSpanContext(context.Background(),
	trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(bytes.Repeat([]byte{0xff}, 16)),
		SpanID:  trace.SpanID(bytes.Repeat([]byte{0xff}, 8)),
	}))

// quiet is a context below that span.
type quiet struct{ context.Context }

// Value finds the span, beside the context's values.
func (q *quiet) Value(key any) any {
	if v := nowhere.Value(key); v != nil {
		return v
	}
	return q.Context.Value(key)
}

// quieten keeps the answer, since the engine comes with the same context for some time.
func (o *Observer) quieten(ctx context.Context) context.Context {
	// Pointers can be compared whatever they point to.
	if reflect.TypeOf(ctx).Kind() != reflect.Pointer {
		return &quiet{ctx}
	}
	if q := o.latest.Load(); q != nil && q.Context == ctx {
		return q
	}
	q := &quiet{ctx}
	o.latest.Store(q)
	return q
}
