package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

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
