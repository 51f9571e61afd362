package main

import (
	"bytes"
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

	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run tells the story and returns what was printed.
func run(t *testing.T, set stage.Setting) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	set.Program, set.Out = "tracing", &out
	held, err := stage.Play(t.Context(), set, tell)
	require.NoError(t, err)
	return out.String(), held
}

func TestStory(t *testing.T) {
	t.Parallel()
	text, held := run(t, stage.Setting{})
	require.True(t, held, text)
	assert.Equal(t, 2, strings.Count(text, ": lockbeat.hold of worker"),
		"both links lead to the worker's hold: %s", text)
	assert.Regexp(t, `lockbeat\.hold  \[web-2\] .* lost  ERROR: lock lost: expired`, text)
	assert.Regexp(t, `lockbeat\.renew\.failed \d+ times, from \+\S+ \S+ to \+`, text)
	assert.Regexp(t, `lockbeat\.losses operation=report reason=expired +1\n`, text)
	assert.LessOrEqual(t, strings.Count(text, "\n"), 100, "a newcomer reads it in a minute")
}

// On a server of the user's, nothing is left behind, and nothing that was there is touched.
func TestStoryOnRealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("SET", "precious", "1").Error())
	text, held := run(t, stage.Setting{Redis: server.Addr()})
	require.True(t, held, text)
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, []string{"precious"}, keys)
}

// With locks that do not exclude each other nobody waits, and so nobody links to anybody.
func TestNodesWithLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	text, held := run(t, stage.Setting{Apart: true})
	require.False(t, held, text)
	assert.Regexp(t, `who waited has a link to the hold of the other process +\S+ of web-1 +BROKEN`,
		text)
	assert.Contains(t, text, "who was refused has one too")
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
	text, held := run(t, stage.Setting{})
	require.True(t, held, text)
	assert.Contains(t, text, server.URL)
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.faults)
	hold := r.spans["worker lockbeat.hold"]
	require.NotNil(t, hold, "%v", r.spans)
	for _, waiter := range []string{"web-1 lockbeat.acquire"} {
		acquire := r.spans[waiter]
		require.NotNil(t, acquire)
		require.Len(t, acquire.GetLinks(), 1)
		assert.Equal(t, hold.GetSpanId(), acquire.GetLinks()[0].GetSpanId())
		assert.Equal(t, hold.GetTraceId(), acquire.GetLinks()[0].GetTraceId())
	}
	assert.Equal(t, tracepb.Status_STATUS_CODE_ERROR,
		r.spans["web-2 lockbeat.hold"].GetStatus().GetCode())
	for _, name := range []string{"lockbeat.acquire.duration", "lockbeat.held", "lockbeat.losses"} {
		assert.True(t, r.metrics[name], name)
	}
}
