package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// read collects the metrics of all nodes: sums by name and attributes.
func read(ctx context.Context, nodes []*node) (map[string]float64, error) {
	values := make(map[string]float64)
	for _, n := range nodes {
		var all metricdata.ResourceMetrics
		if err := n.reader.Collect(ctx, &all); err != nil {
			return nil, err
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				add(values, m)
			}
		}
	}
	return values, nil
}

func add(values map[string]float64, m metricdata.Metrics) {
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			values[title(m.Name, p.Attributes)] += float64(p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			values[title(m.Name, p.Attributes)+" count"] += float64(p.Count)
			values[title(m.Name, p.Attributes)+" sum, s"] += p.Sum
		}
	}
}

// title is the name of a series.
func title(name string, attrs attribute.Set) string {
	for _, kv := range attrs.ToSlice() {
		name += " " + strings.TrimPrefix(string(kv.Key), "lockbeat.") + "=" + kv.Value.String()
	}
	return name
}

func printMetrics(d *demo.Demo, values map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		d.Print("  %-80s %8.3g", name, values[name])
	}
}

// total adds up all series of a metric.
func total(values map[string]float64, metric string) (sum float64) {
	for name, value := range values {
		if name == metric || strings.HasPrefix(name, metric+" ") {
			sum += value
		}
	}
	return sum
}
