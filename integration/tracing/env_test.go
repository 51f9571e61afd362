package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// The configuration of most tests, in round numbers: a lease is good
// for 9.899 s after its request was sent, its context ends after 9 s.
var config = renewer.Config{
	TTL:            10100 * time.Millisecond,
	Margin:         899 * time.Millisecond,
	Heartbeat:      3 * time.Second,
	RequestTimeout: 2 * time.Second,
	Poll:           5 * time.Second,
	Node:           "here",
}

// The bounds that TELEMETRY.md names.
const (
	mostAttempts   = 16
	mostLinks      = 128
	mostOperations = 256
)

// other is a holder in another process.
var other = contract.Holder{Node: "web-2", PID: 4711, Operation: "refund"}

// scene is an observer on a keeper with a scripted store, and all that it makes.
type scene struct {
	renewer.Observer
	store    *script.Store
	keeper   *renewer.Keeper
	cutShort bool // the test has shut the keeper down under an operation
	*seen
}

// seen is telemetry.
type seen struct {
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer // the program's own
	reader *sdkmetric.ManualReader
	to     []tracing.Option // sends it here

	tracers *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
}

// newSeen is telemetry of which all is sampled, by a sampler if there is none given.
func newSeen(sampler ...sdktrace.Sampler) *seen {
	spans := tracetest.NewSpanRecorder()
	opts := []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(spans)}
	for _, s := range sampler {
		opts = append(opts, sdktrace.WithSampler(s))
	}
	tracers := sdktrace.NewTracerProvider(opts...)
	reader := sdkmetric.NewManualReader()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	return &seen{
		spans: spans, tracer: tracers.Tracer("program"), reader: reader,
		to: []tracing.Option{
			tracing.WithTracerProvider(tracers),
			tracing.WithMeterProvider(meters),
		},
		tracers: tracers, meters: meters,
	}
}

// inBubble runs f in a bubble. When f returns every span that was started must have ended, and no
// caller may hold a lock or wait for one.
func inBubble(t *testing.T, f func(t *testing.T, s *scene), opts ...tracing.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{store: script.New(), seen: newSeen()}
		s.Observer = tracing.New(append(s.to, opts...)...)
		cfg := config
		cfg.Observer = s
		var err error
		s.keeper, err = renewer.New(s.store, cfg)
		require.NoError(t, err)
		ended := false
		defer func() {
			s.store.Default(script.Release, script.Pass())
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := s.keeper.Shutdown(ctx)
			waitFor(time.Minute) // for what a failed test has left
			if ended {
				if !s.cutShort { // else it is told again what the test's own shutdown came to
					require.NoError(t, err)
				}
				s.quietNow(t)
			}
		}()
		f(t, s)
		ended = true
	})
}

// quietNow checks that nothing is left over.
func (s *scene) quietNow(t *testing.T) {
	t.Helper()
	assert.Len(t, s.spans.Ended(), len(s.spans.Started()),
		"a span that is not ended is kept for good by some exporters")
	for _, name := range []string{"lockbeat.held", "lockbeat.waiting", "lockbeat.overrunning"} {
		for _, p := range points[int64](t, s.seen, name) {
			assert.Zero(t, p.Value, "%s %v", name, p.Attributes.Encoded(attribute.DefaultEncoder()))
		}
	}
}

// waitFor lets d go by.
func waitFor(d time.Duration) { <-time.After(d) }

// request starts a span as a caller has one.
func (s *seen) request(t *testing.T) (context.Context, trace.Span) {
	t.Helper()
	return s.tracer.Start(t.Context(), "request")
}

// acquire gets a lock that must be had.
func (s *scene) acquire(
	ctx context.Context, t *testing.T, name string, more ...renewer.Request,
) *renewer.Lease {
	t.Helper()
	r := append(more, renewer.Request{})[0]
	r.Name = name
	l, err := s.keeper.Acquire(ctx, r)
	require.NoError(t, err)
	return l
}

// named are the spans of a name that have ended, in the order of their ends.
func (s *seen) named(name string) []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, span := range s.spans.Ended() {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

// the is the only span of a name.
func (s *seen) the(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	found := s.named(name)
	require.Len(t, found, 1, name)
	return found[0]
}

// attrs are attributes in a form that compares.
func attrs(kvs []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(kvs))
	for _, kv := range kvs {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

// metrics is what is collected now, by name.
func (s *seen) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, s.reader.Collect(context.Background(), &all))
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// points are those of a sum; none if it has not been measured.
func points[N int64 | float64](t *testing.T, s *seen, name string) []metricdata.DataPoint[N] {
	t.Helper()
	m, ok := s.metrics(t)[name]
	if !ok {
		return nil
	}
	require.IsType(t, metricdata.Sum[N]{}, m.Data, name)
	return m.Data.(metricdata.Sum[N]).DataPoints
}

// sum is the value of one series of a sum, 0 if there is none.
func (s *seen) sum(t *testing.T, name string, of map[string]any) int64 {
	t.Helper()
	for _, p := range points[int64](t, s, name) {
		if assert.ObjectsAreEqual(of, attrs(p.Attributes.ToSlice())) {
			return p.Value
		}
	}
	return 0
}

// durations are the number and the sum of one series of a histogram.
func (s *seen) durations(
	t *testing.T, name string, of map[string]any,
) (count uint64, seconds float64) {
	t.Helper()
	m, ok := s.metrics(t)[name]
	if !ok {
		return 0, 0
	}
	for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
		if assert.ObjectsAreEqual(of, attrs(p.Attributes.ToSlice())) {
			return p.Count, p.Sum
		}
	}
	return 0, 0
}
