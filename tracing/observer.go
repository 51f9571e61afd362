package tracing

import (
	"slices"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
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

// Option is for [New]. nil is ignored.
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
		// The global providers stand in until the program has set its own,
		// which may be later.
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

// WithTracerProvider sets where spans go. Default the global provider; nil is
// ignored.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(s *settings) {
		if p != nil {
			s.tracers = p
		}
	}
}

// WithMeterProvider sets where metrics go. Default the global provider; nil is
// ignored.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(s *settings) {
		if p != nil {
			s.meters = p
		}
	}
}

// WithAttributes adds attributes to every span and every metric, and to those
// of an earlier WithAttributes. Those of this package have precedence.
func WithAttributes(attrs ...attribute.KeyValue) Option {
	attrs = slices.Clone(attrs)
	return func(s *settings) { s.static = append(s.static, attrs...) }
}

// WithNames has spans show the names of locks, and the texts of errors, which
// may have them in them: for development, or where names carry no personal
// data. Without it they show a hash, which can be guessed: see [WithKeySecret].
func WithNames() Option { return func(s *settings) { s.names = true } }

// WithKeySecret makes the hash of names a keyed one, so that a guessed name
// can't be hashed without the secret: give all processes, and
// renewer.LogSecret, the same. It panics if secret is empty.
func WithKeySecret(secret []byte) Option {
	if len(secret) == 0 {
		panic("lockbeat: tracing.WithKeySecret needs a secret: 32 random bytes, the same in " +
			"every process, or leave it out")
	}
	secret = slices.Clone(secret)
	return func(s *settings) { s.keySecret = secret }
}

// WithRenewSpans makes a lockbeat.renew of every batch of heartbeats, a root of
// a trace of its own, linked to at most 128 of the holds in it. Default: no
// spans.
func WithRenewSpans() Option { return func(s *settings) { s.renewSpans = true } }

// shown is what spans show of a lock's name.
func (s *settings) shown(name string) string {
	if s.names {
		return printable(name, store.MaxName)
	}
	return renewer.HashName(name, s.keySecret)
}

// withKey adds what is shown of a name to attributes.
func (s *settings) withKey(attrs []attribute.KeyValue, shown string) []attribute.KeyValue {
	key := keyNameHash
	if s.names {
		key = keyName
	}
	return append(attrs, attribute.String(key, shown))
}

// printable is s in a form that is safe in an attribute, and from there in a
// log line: valid UTF-8, without control bytes, at most so many bytes. What
// can't be shown becomes U+FFFD. Exporters refuse a whole batch because of one
// broken byte.
func printable(s string, most int) string {
	var b strings.Builder
	for _, r := range s {
		if !unicode.IsPrint(r) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
