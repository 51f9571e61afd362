package tracing

import (
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Option changes one thing about what [New] returns. A nil Option is ignored.
type Option func(*settings)

type settings struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	static     []attribute.KeyValue
	names      bool // shown as they are
	keySecret  []byte
	renewSpans bool
}

func newSettings(opts []Option) settings {
	s := settings{
		// The global providers stand in until the program has set its own, which may be later.
		tracers: otel.GetTracerProvider(),
		meters:  otel.GetMeterProvider(),
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

// WithAttributes adds attributes to every span and every metric, in addition to those
// of an earlier WithAttributes. Their values are the same for the life of the program,
// so the number of series is unchanged. Those of this package have precedence.
func WithAttributes(attrs ...attribute.KeyValue) Option {
	attrs = slices.Clone(attrs)
	return func(s *settings) { s.static = append(s.static, attrs...) }
}

// WithNames has spans show the names of locks, and the texts of errors, which may have them in
// them: for development, or where names carry no personal data. Without it they show a hash of the
// name, by which the spans about one lock are found, and the lines of renewer.NewLogObserver: see
// [renewer.HashName]. The name can't be read from that, but it can be guessed; [WithKeySecret]
// prevents that. Metrics never show a name.
func WithNames() Option { return func(s *settings) { s.names = true } }

// WithKeySecret makes the hash of names a keyed one, an HMAC-SHA256: a guessed name can't
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

// WithRenewSpans makes a span of every batch of renewals, a root of a trace of its own, linked
// to the holds in it, to at most 128 of them. Without it, the default, renewals make no spans,
// and nor does the instrumentation of a Redis client under them: see the package's text.
func WithRenewSpans() Option { return func(s *settings) { s.renewSpans = true } }
