package main

import (
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/tracing"
)

// newObserver hears of locks for the log and for OpenTelemetry, whose metrics GET /metrics shows to
// Prometheus.
func newObserver() renewer.Observer {
	reader, err := prometheus.New()
	must(err)
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	return renewer.Observers(renewer.NewLogObserver(slog.Default()), tracing.New())
}
