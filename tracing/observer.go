package tracing

import (
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
)

// Observer makes spans and metrics of what happens to locks. It may serve several
// keepers. All methods may be called concurrently; they are the engine's to call.
type Observer struct {
	renewer.NopObserver
	settings
	instruments

	tracer trace.Tracer
	series *catalogue
	latest atomic.Pointer[quiet] // the last one made

	beat     []trace.SpanStartOption // of lockbeat.renew
	beatName string
}

var _ renewer.Observer = (*Observer)(nil)

// New returns an Observer for renewer.Config. It can't fail: the error of an instrument goes to
// OpenTelemetry's error handler, and the instrument is left out. Make one Observer for the whole
// program: its meter provider keeps it for good.
func New(opts ...Option) *Observer {
	o := &Observer{settings: newSettings(opts)}
	o.instruments = o.newInstruments()
	o.tracer = o.tracers.Tracer(ScopeName, trace.WithInstrumentationVersion(Version))
	o.series = newCatalogue(o.newSeries)
	o.observeSeries(o.series)
	o.beat = []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindInternal),
		trace.WithAttributes(o.static...),
	}
	o.beatName = o.nameOf(spanRenew, "")
	return o
}
