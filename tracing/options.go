package tracing

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Option changes one thing about an [Observer]. A nil Option is ignored.
type Option func(*settings)

type settings struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	spanName   func(kind, operation string) string
	static     []attribute.KeyValue
	keyMode    KeyMode
	keySecret  []byte
	filters    []func(name, operation string) bool
	renewSpans bool
}

func newSettings(opts []Option) settings {
	s := settings{
		// The global providers stand in until the program has set its own, which may be later.
		tracers:    otel.GetTracerProvider(),
		meters:     otel.GetMeterProvider(),
		propagator: propagation.TraceContext{},
		spanName:   func(kind, _ string) string { return kind },
		keyMode:    KeyModeHashed,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	s.static = slices.Clip(s.static) // so that an append makes a new slice
	return s
}

// WithTracerProvider sets where spans go. Default the global provider; nil is ignored.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(s *settings) {
		if p != nil {
			s.tracers = p
		}
	}
}

// WithMeterProvider sets where metrics go. Default the global provider; nil is ignored.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(s *settings) {
		if p != nil {
			s.meters = p
		}
	}
}

// WithPropagator sets what writes and reads the traceparent that is kept beside a lock,
// for the links of those who are refused. Default propagation.TraceContext{}, whatever
// the global propagator is; nil is ignored. Of what p writes only the field "traceparent"
// is kept, so baggage never gets into the lock store; one that writes no such field, such
// as an empty propagation.NewCompositeTextMapPropagator(), writes and reads no links.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(s *settings) {
		if p != nil {
			s.propagator = p
		}
	}
}

// WithSpanNameFormatter sets how spans are named. f gets the span's usual name,
// such as "lockbeat.hold", and the operation given by renewer.Operation or
// lockmw.Operation, which is "" without one and for lockbeat.renew. It is called
// once for each pair and its answer used from then on; "" means the usual name.
// Default the usual names; nil is ignored. f may be called concurrently.
func WithSpanNameFormatter(f func(kind, operation string) string) Option {
	return func(s *settings) {
		if f != nil {
			s.spanName = f
		}
	}
}

// WithAttributes adds attributes to every span and every metric, in addition to those
// of an earlier WithAttributes. Their values are the same for the life of the program,
// so the number of series is unchanged. Those of this package have precedence.
func WithAttributes(attrs ...attribute.KeyValue) Option {
	attrs = slices.Clone(attrs)
	return func(s *settings) { s.static = append(s.static, attrs...) }
}

// WithKey sets how spans show which lock they are about. The default is [KeyModeHashed].
func WithKey(mode KeyMode) Option { return func(s *settings) { s.keyMode = mode } }

// WithKeySecret makes [KeyModeHashed] a keyed hash, an HMAC-SHA256: a guessed name can't
// be hashed without the secret. Processes with the same secret show the same hashes;
// give renewer.LogSecret the same, so that lines of the log can be matched. It panics if
// secret is empty, since a setting that was not filled in must not pass for protection.
func WithKeySecret(secret []byte) Option {
	if len(secret) == 0 {
		panic("lockbeat: tracing.WithKeySecret needs a secret: 32 random bytes, the same in " +
			"every process, or leave it out")
	}
	secret = slices.Clone(secret)
	return func(s *settings) { s.keySecret = secret }
}

// WithFilter leaves out the locks for which f returns false: they have neither spans
// nor metrics, except that the renewals, which are sent in batches, are counted with
// the others. With several filters all must return true. f is called once for each
// acquire; it must return soon, and may be called concurrently. nil is ignored.
func WithFilter(f func(name, operation string) bool) Option {
	return func(s *settings) {
		if f != nil {
			s.filters = append(s.filters, f)
		}
	}
}

// WithRenewSpans makes a span of every batch of renewals, a root of a trace of its own, linked
// to the holds in it, to at most 128 of them. Without it, the default, renewals make no spans,
// and nor does the instrumentation of a Redis client under them: see the package's text.
func WithRenewSpans() Option { return func(s *settings) { s.renewSpans = true } }

// muted reports whether a filter leaves a lock out.
func (s *settings) muted(name, operation string) bool {
	for _, f := range s.filters {
		if !f(name, operation) {
			return true
		}
	}
	return false
}
