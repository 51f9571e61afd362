package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
)

// maxErrorBytes bounds the text of an error in an attribute.
const maxErrorBytes = 512

// Missed adds an event to lockbeat.hold for a heartbeat that failed or was
// late.
func (o *observer) Missed(ctx context.Context, e renewer.Missed) {
	r := o.find(ctx)
	if r == nil || r.hold == nil {
		return
	}
	name := eventRenewLate
	attrs := append(make([]attribute.KeyValue, 0, 4),
		attribute.Float64(keyLag, e.Lag.Seconds()), attribute.Float64(keyLeft, e.Left.Seconds()))
	if e.Err != nil {
		name = eventRenewFailed
		attrs = append(attrs, o.errorAttributes(e.Err)...)
	}
	r.hold.AddEvent(name, trace.WithAttributes(attrs...))
}

// Lost adds a loss to lockbeat.hold and to the operation's own span.
func (o *observer) Lost(ctx context.Context, e renewer.Lost) {
	r := o.find(ctx)
	if r == nil {
		return
	}
	r.series.held.Add(-1)
	r.series.overrunning.Add(1)
	o.losses.Add(ctx, 1, r.series.losses[reasonOf(e.Err.Reason)]...)
	o.recordLoss(r, e.Operation, e.Err)
}

// recordLoss is called by Lost and, as the operation may have ended
// before the engine comes to that, by Released.
func (o *observer) recordLoss(r *record, operation string, loss *renewer.LostError) {
	if r.hold != nil || r.caller.IsRecording() {
		r.lost.Do(func() { o.putLoss(r, operation, loss) })
	}
}

func (o *observer) putLoss(r *record, operation string, loss *renewer.LostError) {
	attrs := append(make([]attribute.KeyValue, 0, 11),
		attribute.String(keyReason, loss.Reason.String()), attribute.Int64(keyFence, loss.Fence),
		attribute.Float64(keyLeft, loss.Left.Seconds()))
	if loss.Found != "" {
		attrs = append(attrs, attribute.String(keyFound, loss.Found))
	}
	attrs = append(attrs, holderAttributes(loss.Holder)...)
	if operation != "" {
		attrs = append(attrs, attribute.String(keyOperation,
			printable(operation, mostOperationBytes)))
	}
	attrs = o.withKey(attrs, o.shown(loss.Name)) // the operation may have several
	if loss.Err != nil {
		attrs = append(attrs, o.errorAttributes(loss.Err)...)
	}
	event := trace.WithAttributes(attrs...)
	// Its status is its own affair: it may have come to a good end before it
	// heard of the loss.
	r.caller.AddEvent(eventLost, event)
	if r.hold != nil {
		r.hold.AddEvent(eventLost, event)
		r.hold.SetAttributes(attribute.String(keyReason, loss.Reason.String()))
		if loss.Found != "" {
			r.hold.SetAttributes(attribute.String(keyFound, loss.Found))
		}
		r.hold.SetStatus(codes.Error, "lock lost: "+loss.Reason.String())
	}
}

// Released ends lockbeat.hold.
func (o *observer) Released(ctx context.Context, e renewer.Released) {
	r := o.find(ctx)
	if r == nil {
		return
	}
	end, series := endReleased, r.series.released
	if e.Lost == nil {
		r.series.held.Add(-1)
	} else {
		end, series = endLost, r.series.lost
		r.series.overrunning.Add(-1)
		o.overrunDuration.Record(ctx, e.Overrun.Seconds(),
			r.series.overruns[reasonOf(e.Lost.Reason)]...)
		o.recordLoss(r, e.Operation, e.Lost)
	}
	o.holdDuration.Record(ctx, e.Held.Seconds(), series...)
	if r.hold == nil {
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 3),
		attribute.String(keyOutcome, end), attribute.Int(keyRenewals, e.Renewals))
	if e.Lost != nil {
		attrs = append(attrs, attribute.Float64(keyOverrun, e.Overrun.Seconds()))
	}
	if e.Err != nil {
		r.hold.AddEvent(eventReleaseFailed, trace.WithAttributes(o.errorAttributes(e.Err)...))
		r.hold.SetStatus(codes.Error, "the lock could not be freed; it lapses with its TTL")
	}
	r.hold.SetAttributes(attrs...)
	r.hold.End()
}

// Unlocked counts an operation that runs without its lock; why shows
// lockbeat.acquire.
func (o *observer) Unlocked(ctx context.Context, e renewer.Unlocked) {
	o.unlocked.Add(ctx, 1, o.locks.of(e.Operation).unlocked...)
}

// errorAttributes describe a store's error; its text, which may have
// the lock's name in it, only if the name may be seen.
func (o *observer) errorAttributes(err error) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 2),
		attribute.String(keyErrorType, errorType(err)))
	if o.names {
		attrs = append(attrs, attribute.String(keyErrorMessage,
			printable(err.Error(), maxErrorBytes)))
	}
	return attrs
}

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

// record is what is known of one acquire, and of the lease that comes of it. It
// is a context at the same time, which saves an allocation: the acquire's and
// the lease's derive from it.
type record struct {
	context.Context // the caller's

	observer *observer
	series   *series
	caller   trace.Span // the operation's own; it does nothing if there is none

	// Written until AcquireEnd returns, by the caller's goroutine; read
	// afterwards, by any.
	acquire trace.Span // nil unless recorded
	hold    trace.Span // to be, until AcquireEnd; nil unless recorded
	shown   string     // of the lock's name, once a span is recorded
	asked   time.Time  // when the latest claim was made
	refused int        // how many claims were, as far as they had a span

	lost sync.Once // puts the loss on the spans: the second caller waits, since it may end them
}

// recordKey finds the record of one observer, as there may be several.
type recordKey struct{ of *observer }

// Value finds the record itself, and its lockbeat.hold, beside the caller's
// values.
func (r *record) Value(key any) any {
	if k, ok := key.(recordKey); ok && k.of == r.observer {
		return r
	}
	if key == (holdKey{}) && r.hold != nil {
		return r.hold.SpanContext()
	}
	return r.Context.Value(key)
}

// find is the record that ctx derives from, nil if there is none.
func (o *observer) find(ctx context.Context) *record {
	r, _ := ctx.Value(recordKey{o}).(*record)
	return r
}
