package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
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
