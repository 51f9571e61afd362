package tracing

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// maxAttempts bounds the spans of a single acquire, which may stand by for
	// days. Beyond it, a link leads to the acquire instead of the hold.
	maxAttempts = 16
	// maxHolderBytes bounds each text that comes from another process.
	maxHolderBytes = 64
)

// AcquireStart starts lockbeat.acquire.
func (o *observer) AcquireStart(ctx context.Context, e renewer.AcquireStart) context.Context {
	if e.StandBy { // nothing of it is found, nor the record of a lock around it taken for its own
		return context.WithValue(ctx, recordKey{o}, (*record)(nil))
	}
	r := &record{
		Context: ctx, observer: o, series: o.seriesOf(e.Operation, e.Limit > 0),
		caller: trace.SpanFromContext(ctx),
	}
	r.series.waiting.Add(1)
	opts := r.series.start
	if !r.caller.SpanContext().IsValid() { // in a leader's work, or in none
		if hold := Link(ctx); hold.SpanContext.IsValid() {
			opts = append(slices.Clip(opts), trace.WithLinks(hold))
		}
	}
	ctx, span := o.tracer.Start(r, spanAcquire, opts...)
	if span.IsRecording() {
		r.acquire, r.shown = span, o.shown(e.Name)
	}
	return ctx
}

// Claim starts the span that is lockbeat.hold if the question is granted, and
// returns its traceparent. So a link leads to the very span, and that starts
// when the lease is counted from. One that was not granted becomes
// lockbeat.attempt. It could also be dropped without an end, and never be
// exported, but exporters that keep a trace until all its spans have ended
// would keep it for good.
func (o *observer) Claim(ctx context.Context) string {
	r := o.find(ctx)
	if r == nil || r.acquire == nil {
		return ""
	}
	r.refuse()
	r.asked = time.Now()
	if r.refused >= maxAttempts {
		return traceparent(ctx)
	}
	ctx, span := o.startHold(ctx, r, r.series.start)
	if span.IsRecording() {
		r.hold = span
	}
	return traceparent(ctx)
}

// AcquireEnd ends lockbeat.acquire. The context that it returns has
// lockbeat.hold as its span, or none for an operation that may never end.
func (o *observer) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	r := o.find(ctx)
	if r == nil {
		return ctx
	}
	result := outcomeOf(e)
	r.series.waiting.Add(-1)
	closed := errors.Is(e.Err, renewer.ErrLimitClosed)
	if closed { // it did not look like a limit
		r.series = o.limits.of(e.Operation)
	}
	if r.series.limited && (e.Contended || closed) {
		o.atLimit.Add(ctx, 1, r.series.atLimit[result]...)
	}
	o.acquireDuration.Record(ctx, e.Wait.Seconds(), r.series.acquired[result]...)
	if refused := r.series.refused[result]; refused != nil && errors.Is(e.Err, renewer.ErrBusy) {
		o.refusals.Add(ctx, 1, refused...)
	}
	if e.Err != nil {
		r.refuse()
		o.endAcquire(r, e, result)
		return ctx
	}
	r.series.held.Add(1)
	ctx = o.beginHold(ctx, r, e)
	if e.LongRunning {
		ctx = rootless(ctx)
	}
	o.endAcquire(r, e, result)
	return ctx
}

// startHold starts a span beside lockbeat.acquire, or below it if the
// caller has none, so that they are in one trace.
func (o *observer) startHold(
	ctx context.Context, r *record, opts []trace.SpanStartOption,
) (context.Context, trace.Span) {
	if r.caller.SpanContext().IsValid() {
		ctx = r
	}
	return o.tracer.Start(ctx, spanHold, opts...)
}

// beginHold returns the lease's context.
func (o *observer) beginHold(ctx context.Context, r *record, e renewer.AcquireEnd) context.Context {
	if r.hold == nil && r.acquire != nil { // the claim had no span any more
		_, span := o.startHold(ctx, r,
			append(slices.Clip(r.series.start), trace.WithTimestamp(r.asked)))
		if span.IsRecording() {
			r.hold = span
		}
	}
	if r.hold == nil {
		if r.caller.IsRecording() || r.caller.SpanContext().IsSampled() {
			// a program that leaves out our spans still wants to see its
			// operation's
			return trace.ContextWithSpan(ctx, r.caller)
		}
		return ctx
	}
	if r.shown == "" { // lockbeat.acquire was not recorded
		r.shown = o.shown(e.Name)
	}
	r.hold.SetAttributes(o.withKey(r.withLimit(append(make([]attribute.KeyValue, 0, 4),
		attribute.Int64(keyFence, e.Fence)), e), r.shown)...)
	return trace.ContextWithSpan(ctx, r.hold)
}

// endAcquire ends lockbeat.acquire with its outcome. To be refused is no error.
func (o *observer) endAcquire(r *record, e renewer.AcquireEnd, result int) {
	if r.acquire == nil {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 13),
		attribute.String(keyOutcome, outcomes[result].name), attribute.Int(keyAttempts, e.Attempts),
		attribute.Bool(keyContended, e.Contended), attribute.Float64(keyWait, e.Wait.Seconds()))
	attrs = o.withKey(r.withLimit(attrs, e), r.shown)
	if e.HandedOver {
		attrs = append(attrs, attribute.Bool(keyHandedOver, true))
	}
	if e.Holder != (store.Holder{}) {
		attrs = append(attrs, holderAttributes(e.Holder)...)
		attrs = append(attrs, attribute.Float64(keyHolderHeldFor, e.HeldFor.Seconds()))
		if sc := remote(e.Holder.Trace); sc.IsValid() {
			r.acquire.AddLink(trace.Link{SpanContext: sc})
		}
	}
	if name := outcomes[result].name; name == "unavailable" || name == "failed" {
		attrs = append(attrs, o.errorAttributes(e.Err)...)
		r.acquire.SetStatus(codes.Error, "the store could not be asked for the lock")
	}
	r.acquire.SetAttributes(attrs...)
	r.acquire.End()
}

// withLimit adds how many may have a slot of a limit and, if it was full, how
// many had one.
func (r *record) withLimit(
	attrs []attribute.KeyValue, e renewer.AcquireEnd,
) []attribute.KeyValue {
	if r.series.limited {
		attrs = append(attrs, attribute.Int(keyLimit, e.Limit))
	}
	if e.Held > 0 {
		attrs = append(attrs, attribute.Int(keyLimitHeld, e.Held))
	}
	return attrs
}

// holderAttributes say who had the lock, or has it, as far as that is known. It
// comes from another process.
func holderAttributes(holder store.Holder) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 3)
	if host := printable(holder.Node, maxHolderBytes); host != "" {
		attrs = append(attrs, attribute.String(keyHolderHost, host))
	}
	if holder.PID != 0 {
		attrs = append(attrs, attribute.Int(keyHolderPID, holder.PID))
	}
	if operation := printable(holder.Operation, maxHolderBytes); operation != "" {
		attrs = append(attrs, attribute.String(keyHolderOperation, operation))
	}
	return attrs
}

// refuse ends a span that was not to become a hold.
func (r *record) refuse() {
	if r.hold == nil {
		return
	}
	r.hold.SetName(spanAttempt)
	r.hold.End()
	r.hold = nil
	r.refused++
}
