package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/tracing"
)

// endpoint names where telemetry goes as well, as everywhere in OpenTelemetry.
const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// telemetry is one node's, as its own process would have it.
type telemetry struct {
	service  string
	tracer   trace.Tracer // for the node's own spans
	observer renewer.Observer
	tracers  *sdktrace.TracerProvider
	meters   *metric.MeterProvider
	spans    *tracetest.SpanRecorder // what is printed at the end
}

// newTelemetry is the set-up of a program: providers, and an observer that uses
// them, for the keeper. With global providers tracing.New() is enough.
func newTelemetry(ctx context.Context, service string) (*telemetry, error) {
	t := &telemetry{service: service, spans: tracetest.NewSpanRecorder()}
	who := resource.NewSchemaless(attribute.String("service.name", service))
	traces := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(who), sdktrace.WithSpanProcessor(t.spans),
	}
	metrics := []metric.Option{metric.WithResource(who)}
	if os.Getenv(endpoint) != "" {
		spansOut, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", endpoint, err)
		}
		metricsOut, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", endpoint, err), spansOut.Shutdown(ctx))
		}
		traces = append(traces, sdktrace.WithBatcher(spansOut))
		metrics = append(metrics, metric.WithReader(metric.NewPeriodicReader(metricsOut)))
	}
	t.tracers, t.meters = sdktrace.NewTracerProvider(traces...), metric.NewMeterProvider(metrics...)
	t.tracer = t.tracers.Tracer("example")
	t.observer = tracing.New(tracing.WithTracerProvider(t.tracers),
		tracing.WithMeterProvider(t.meters))
	return t, nil
}

// close sends what is left to be sent.
func (t *telemetry) close(ctx context.Context) error {
	return errors.Join(t.tracers.Shutdown(ctx), t.meters.Shutdown(ctx))
}
