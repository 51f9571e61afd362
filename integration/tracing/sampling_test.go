package tracing_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/tracing"
)

// began is what an observer makes of the beginning of a lock's life.
func began(
	ctx context.Context, o renewer.Observer,
) (acquiring, holding context.Context, told string) {
	start := renewer.AcquireStart{Name: "a", Operation: "charge"}
	acquiring = o.AcquireStart(ctx, start)
	told = o.Claim(acquiring)
	return acquiring, o.AcquireEnd(acquiring,
		renewer.AcquireEnd{AcquireStart: start, Fence: 1}), told
}

// A request that is not sampled makes no spans and leaves no traceparent in the store. What it runs
// under the lock stays unsampled.
func TestAnUnsampledCaller(t *testing.T) {
	t.Parallel()
	s := newSeen()
	o := tracing.New(s.to...)
	acquiring, holding, told := began(trace.ContextWithRemoteSpanContext(t.Context(),
		parent(false)), o)
	require.Empty(t, told, "a link to it would lead nowhere")
	require.Empty(t, s.spans.Started())
	require.Equal(t, trace.SpanContextFromContext(acquiring), trace.SpanContextFromContext(holding),
		"one span is enough")
	require.Equal(t, parent(false).TraceID(), trace.SpanContextFromContext(holding).TraceID())
	require.False(t, trace.SpanContextFromContext(holding).IsSampled())
	o.Missed(holding, renewer.Missed{Name: "a", Err: errDown})
	loss := &renewer.LostError{Name: "a", Reason: renewer.ReasonTaken, Fence: 1}
	o.Lost(holding, renewer.Lost{Name: "a", Operation: "charge", Fence: 1, Err: loss})
	o.Released(holding, renewer.Released{Name: "a", Operation: "charge", Fence: 1, Lost: loss})
	require.Empty(t, s.spans.Started())
}

// leaveOut is a sampler that leaves out spans by a name's beginning, as some do to save money.
type leaveOut string

func (l leaveOut) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.RecordAndSample
	if strings.HasPrefix(p.Name, string(l)) {
		decision = sdktrace.Drop
	}
	return sdktrace.SamplingResult{Decision: decision}
}

func (l leaveOut) Description() string { return string(l) }

// A program that leaves out the locks' spans, or has given no provider for them, loses none of its
// own below them, and hears of a loss. That is so for a caller elsewhere too, and for one whose
// span is recorded and not exported.
func TestACallersSpanIsKept(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]tracing.Option{
		"no provider":      {noSpans, noMetrics},
		"lockbeat.":        newSeen(leaveOut("lockbeat.")).to,
		"lockbeat.acquire": newSeen(leaveOut("lockbeat.acquire")).to,
		"lockbeat.hold":    newSeen(leaveOut("lockbeat.hold")).to,
	} {
		for _, caller := range []*seen{newSeen(), newSeen(recordOnly{})} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				o := tracing.New(opts...)
				ctx, request := caller.request(t)
				_, holding, told := began(ctx, o)
				require.Empty(t, told)
				require.Equal(t, request, trace.SpanFromContext(holding))
				loss := &renewer.LostError{Name: "a", Reason: renewer.ReasonTaken, Fence: 1}
				o.Lost(holding, renewer.Lost{Name: "a", Operation: "charge", Fence: 1, Err: loss})
				o.Released(holding,
					renewer.Released{Name: "a", Operation: "charge", Fence: 1, Lost: loss})
				request.End()
				require.Len(t, named(caller.the(t, "request"), "lockbeat.lost"), 1)
			})
		}
	}
	o := tracing.New(newSeen(leaveOut("lockbeat.")).to...)
	_, holding, _ := began(trace.ContextWithRemoteSpanContext(t.Context(), parent(true)), o)
	require.Equal(t, parent(true), trace.SpanContextFromContext(holding))
}

// recordOnly is a sampler for spans that are looked at here, but not exported.
type recordOnly struct{}

func (recordOnly) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly}
}

func (recordOnly) Description() string { return "recordOnly" }

// Spans that are recorded and not exported are kept as others are, and no link leads to them.
func TestRecordOnly(t *testing.T) {
	t.Parallel()
	s := newSeen(recordOnly{})
	o := tracing.New(s.to...)
	_, holding, told := began(t.Context(), o)
	require.Empty(t, told)
	o.Released(holding, renewer.Released{Name: "a", Operation: "charge", Fence: 1})
	s.the(t, "lockbeat.hold")
}
