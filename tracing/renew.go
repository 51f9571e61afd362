package tracing

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
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

// Outcomes of runs, as lockbeat.runs has them.
const (
	runRan    = "ran"
	runFailed = "failed"
	runCut    = "cut"
	runMissed = "missed"
	runNotRun = "not_run"
	runOther  = "skipped"
)

// Ran counts a run of a job, and notes when one last succeeded. Runs are few:
// nothing is made in advance for them.
func (o *observer) Ran(ctx context.Context, e renewer.Run) {
	s := o.locks.of(e.Job)
	s.lastSuccess.note(e.LastSuccess)
	s.dueBy.note(e.DueBy)
	with := func(outcome string) metric.MeasurementOption {
		return metric.WithAttributes(append(o.ofOperation(e.Job),
			attribute.String(keyOutcome, outcome))...)
	}
	outcome := ""
	switch {
	case e.Outcome == renewer.OutcomeAdded: // so that the first of them is seen: see countNone
		for _, none := range []string{runFailed, runMissed, runNotRun} {
			o.runs.Add(ctx, 0, with(none))
		}
	case e.Outcome == renewer.OutcomeCut:
		outcome = runCut
	case e.Outcome == renewer.OutcomeRan && e.Err != nil:
		outcome = runFailed
	case e.Outcome == renewer.OutcomeRan:
		outcome = runRan
	case e.Outcome == renewer.OutcomeMissed:
		o.runs.Add(ctx, 1, with(runMissed))
	case e.Outcome == renewer.OutcomeSkipped:
		o.runs.Add(ctx, 1, with(runOther))
	case e.Outcome == renewer.OutcomeNotRun && !errors.Is(e.Err, renewer.ErrShutdown) &&
		!errors.Is(e.Err, context.Canceled):
		o.runs.Add(ctx, 1, with(runNotRun))
	}
	if outcome == "" {
		return
	}
	o.runs.Add(ctx, 1, with(outcome))
	o.runDuration.Record(ctx, e.Took.Seconds(), with(outcome))
	if e.Missed > 0 {
		o.runs.Add(ctx, int64(e.Missed), with(runMissed))
	}
}

// ofOperation are the attributes of a job, which is bounded as operations are.
func (o *observer) ofOperation(operation string) []attribute.KeyValue {
	if (*o.locks.known.Load())[operation] == nil {
		operation = otherOperation
	}
	attrs := append(make([]attribute.KeyValue, 0, len(o.static)+2), o.static...)
	if operation == "" {
		return attrs
	}
	return append(attrs, attribute.String(keyOperation, printable(operation, mostOperationBytes)))
}

// moment is a Unix time in milliseconds; 0 if it is not known.
type moment struct{ atomic.Int64 }

// note sets a time that is known.
func (m *moment) note(at time.Time) {
	if !at.IsZero() {
		m.Store(at.UnixMilli())
	}
}

// observe tells it in seconds, if it is known.
func (m *moment) observe(
	out metric.Observer, gauge metric.Float64Observable, with []metric.ObserveOption,
) {
	if at := m.Load(); at != 0 {
		out.ObserveFloat64(gauge, float64(at)/1e3, with...)
	}
}
