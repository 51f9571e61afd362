package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			assert.Equal(t, 2, strings.Count(text, ": lockbeat.hold of worker"),
				"both links lead to the worker's hold: %s", text)
			assert.Regexp(t, `lockbeat\.hold  \[web-2\] .* lost  ERROR: lock lost: expired`, text)
			assert.Regexp(t, `lockbeat\.renew\.failed at \+\S+ and so on to \+\S+, \d+ times`, text)
		},
		func() { demotest.Untouched(t, 1, tell) },
		// With locks that do not exclude each other no caller waits, and so none has a link.
		func() {
			demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"who waited has a link to the hold of the other process: lockbeat.acquire of web-1",
				"who was refused has one too")
		},
	)
}

// receiver is an OTLP receiver, over HTTP.
type receiver struct {
	mu      sync.Mutex
	spans   map[string]*tracepb.Span // by service and name
	metrics map[string]bool
	faults  []error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.take(req); err != nil {
		r.faults = append(r.faults, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) take(req *http.Request) error {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if req.URL.Path == "/v1/metrics" {
		var all collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(data, &all); err != nil {
			return err
		}
		for _, resource := range all.GetResourceMetrics() {
			for _, scope := range resource.GetScopeMetrics() {
				for _, m := range scope.GetMetrics() {
					r.metrics[m.GetName()] = true
				}
			}
		}
		return nil
	}
	var all collectortrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &all); err != nil {
		return err
	}
	for _, resource := range all.GetResourceSpans() {
		service := ""
		for _, kv := range resource.GetResource().GetAttributes() {
			if kv.GetKey() == "service.name" {
				service = kv.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans[service+" "+s.GetName()] = s
			}
		}
	}
	return nil
}

// Where an endpoint is set, the spans arrive there, with their links, and the metrics.
func TestExport(t *testing.T) {
	r := &receiver{spans: make(map[string]*tracepb.Span), metrics: make(map[string]bool)}
	server := httptest.NewServer(r)
	defer server.Close()
	t.Setenv(endpoint, server.URL)
	assert.Contains(t, demotest.Holds(t, demo.Setting{}, tell), "sent to "+server.URL)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults)
	hold := r.spans["worker lockbeat.hold"]
	require.NotNil(t, hold, "%v", r.spans)
	acquire := r.spans["web-1 lockbeat.acquire"]
	require.NotNil(t, acquire)
	require.Len(t, acquire.GetLinks(), 1)
	assert.Equal(t, hold.GetSpanId(), acquire.GetLinks()[0].GetSpanId())
	assert.Equal(t, hold.GetTraceId(), acquire.GetLinks()[0].GetTraceId())
	assert.Equal(t, tracepb.Status_STATUS_CODE_ERROR,
		r.spans["web-2 lockbeat.hold"].GetStatus().GetCode())
	for _, name := range []string{"lockbeat.acquire.duration", "lockbeat.held", "lockbeat.losses"} {
		assert.True(t, r.metrics[name], name)
	}
}
