package tracing

import (
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
)

// observer makes spans and metrics of what happens to locks.
type observer struct {
	renewer.NopObserver
	settings
	instruments

	tracer  trace.Tracer
	locks   *catalogue
	limits  *catalogue
	keepers keepers
	inLine  atomic.Int64 // tasks, as last seen
}

// New returns an observer for renewer.Config, of one keeper or several. The
// error of an instrument goes to OpenTelemetry's error handler, and the
// instrument is left out. Make one for the whole program: its meter provider
// keeps it for good.
func New(opts ...Option) renewer.Observer {
	o := &observer{settings: newSettings(opts)}
	o.instruments = o.newInstruments()
	o.tracer = o.tracers.Tracer(scopeName, trace.WithInstrumentationVersion(version))
	o.countNone()
	o.locks = newCatalogue(func(operation string) *series { return o.begin(operation, false) })
	o.limits = newCatalogue(func(operation string) *series { return o.begin(operation, true) })
	o.observeSeries()
	return o
}
