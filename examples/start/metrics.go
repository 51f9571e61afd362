package main

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/tracing"
)

// newObserver hears of locks for OpenTelemetry, whose metrics GET /metrics
// shows to Prometheus.
func newObserver() renewer.Observer {
	reader, err := prometheus.New()
	must(err)
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return tracing.New()
}
