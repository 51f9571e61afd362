package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

// read collects a node's metrics: values by name and attributes.
func (t *telemetry) read(ctx context.Context) (map[string]float64, error) {
	var all metricdata.ResourceMetrics
	if err := t.reader.Collect(ctx, &all); err != nil {
		return nil, err
	}
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
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
	}
	return values, nil
}

// title is a series' name.
func title(name string, attrs attribute.Set) string {
	for _, kv := range attrs.ToSlice() {
		name += " " + strings.TrimPrefix(string(kv.Key), "lockbeat.") + "=" + kv.Value.String()
	}
	return name
}

// printMetrics prints a line a series, and a column a node.
func printMetrics(ctx context.Context, s *stage.Stage, nodes []*node) error {
	rows, columns := make(map[string][]string), make([]string, len(nodes))
	for i, n := range nodes {
		columns[i] = n.service
		values, err := n.read(ctx)
		if err != nil {
			return err
		}
		for name, value := range values {
			if rows[name] == nil {
				rows[name] = make([]string, len(nodes))
			}
			rows[name][i] = strings.TrimSuffix(fmt.Sprintf("%.3f", value), ".000")
		}
	}
	s.Print("")
	s.Print("  %-80s %8s %8s %8s", "", columns[0], columns[1], columns[2])
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		s.Print("  %-80s %8s %8s %8s", name, r[0], r[1], r[2])
	}
	return nil
}
