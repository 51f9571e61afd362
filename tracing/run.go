package tracing

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/lockbeat/lockbeat/renewer"
)

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
