package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// claim compares what was recorded with what was promised, and sends it to where the environment
// says.
func claim(
	ctx context.Context, d *demo.Demo, nodes []*node, roots []*span, metrics map[string]float64,
) error {
	export := find(roots, "job export", "lockbeat.hold")
	for _, c := range []struct{ request, what string }{
		{"POST /transfer", "who waited has a link to the hold of the other process"},
		{"POST /withdraw", "who was refused has one too, and no error"},
	} {
		acquire := find(roots, c.request, "lockbeat.acquire")
		linked := acquire != nil && export != nil && len(acquire.Links()) == 1 &&
			acquire.Links()[0].SpanContext.SpanID() == export.SpanContext().SpanID() &&
			acquire.Status().Code != codes.Error
		d.Claim(c.what, linked, "%v", acquire)
	}
	hold := find(roots, "POST /report", "lockbeat.hold")
	d.Claim("the loss is an error of the hold", hold != nil && hold.Status().Code == codes.Error &&
		hold.has("lockbeat.lost"), "%v", hold)
	request := find(roots, "POST /report", "POST /report")
	d.Claim("and an event of the request", request != nil && request.has("lockbeat.lost"), "%v",
		request)
	spans := 0
	for _, n := range nodes {
		for _, span := range n.spans.Ended() {
			if strings.Contains(span.Name(), "renew") {
				spans++
			}
		}
	}
	renewals := total(metrics, "lockbeat.renewals")
	d.Claim("heartbeats are counted, and make no spans", renewals > 0 && spans == 0,
		"%.0f heartbeats, %d spans", renewals, spans)
	held, waiting := total(metrics, "lockbeat.held"), total(metrics, "lockbeat.waiting")
	d.Claim("locks held and callers waiting in the end", held == 0 && waiting == 0,
		"%.0f and %.0f", held, waiting)

	if to := os.Getenv(endpoint); to != "" {
		var faults error
		for _, n := range nodes {
			faults = errors.Join(faults, n.flush(ctx))
		}
		d.Claim("sent to "+to, faults == nil, "%v", faults)
	}
	return nil
}

// find is the span of a name within the trace whose root has another.
func find(spans []*span, root, name string) *span {
	for _, s := range spans {
		if s.Name() == name {
			return s
		}
		if s.Name() == root || root == "" {
			if found := find(s.inside, "", name); found != nil {
				return found
			}
		}
	}
	return nil
}

func (s *span) has(event string) bool {
	for _, e := range s.Events() {
		if e.Name == event {
			return true
		}
	}
	return false
}

func (s *span) String() string {
	if s == nil {
		return "no such span"
	}
	return fmt.Sprintf("%s of %s", s.Name(), s.service)
}

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
