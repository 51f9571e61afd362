package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// Whatever makes spans by the context of a heartbeat, or of a
// clean-up, finds a parent that is not sampled.
func TestHeartbeatsHaveAnUnsampledParent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Acquire, script.Pass().Lost())
		ctx, request := s.request(t)
		_, err := s.keeper.Acquire(ctx, renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		synctest.Wait() // for the clean-up
		l := s.acquire(ctx, t, "a")
		waitFor(time.Minute)
		require.NoError(t, l.Release(l.Context()))
		request.End()
		quiet := s.store.Calls(script.Release)[:1]
		quiet = append(quiet, s.store.Calls(script.Renew)...)
		require.Greater(t, len(quiet), 10)
		for _, call := range quiet {
			parent := trace.SpanContextFromContext(call.Context)
			require.True(t, parent.IsValid(), "otherwise a sampler takes it for a root")
			require.False(t, parent.IsSampled())
			_, ok := call.Context.Deadline()
			require.True(t, ok, "it is the engine's context all the same")
		}
		for _, call := range append(s.store.Calls(script.Acquire),
			s.store.Calls(script.Release)[1:]...) {
			require.Equal(t, request.SpanContext().TraceID(),
				trace.SpanContextFromContext(call.Context).TraceID(),
				"what a caller waits for is in its trace")
		}
	})
}

// One that draws lots by the trace's number, and does not look at the
// parent, takes nothing either, unless it takes all.
func TestHeartbeatsAreLastToBeSampledByRatio(t *testing.T) {
	t.Parallel()
	o := tracing.New(noSpans, noMetrics)
	ctx := o.RenewStart(t.Context(), renewer.RenewStart{})
	result := sdktrace.TraceIDRatioBased(.999999).ShouldSample(sdktrace.SamplingParameters{
		ParentContext: ctx, TraceID: trace.SpanContextFromContext(ctx).TraceID(),
	})
	require.Equal(t, sdktrace.Drop, result.Decision)
}

func TestRenewSpans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Renew, script.Pass(), script.Fail(errDown))
		l := s.acquire(t.Context(), t, "a")
		waitFor(10 * time.Second)
		require.NoError(t, l.Release(l.Context()))
		renewals, hold := s.named("lockbeat.renew"), s.the(t, "lockbeat.hold")
		require.Len(t, renewals, len(s.store.Calls(script.Renew)))
		for i, span := range renewals {
			require.False(t, span.Parent().IsValid(), "a root")
			require.Equal(t, trace.SpanKindInternal, span.SpanKind())
			require.Len(t, span.Links(), 1)
			require.Equal(t, hold.SpanContext(), span.Links()[0].SpanContext)
			call := s.store.Calls(script.Renew)[i]
			require.Equal(t, span.SpanContext(), trace.SpanContextFromContext(call.Context),
				"the Redis client's spans are below it")
			want := map[string]any{
				"lockbeat.leases": int64(1), "lockbeat.leases_gone": int64(0),
				"lockbeat.leases_failed": int64(0), "lockbeat.lag": 0.0,
			}
			if i == 1 {
				want["lockbeat.leases_failed"], want["error.type"] = int64(1), "_OTHER"
				require.Equal(t, codes.Error, span.Status().Code)
			} else {
				require.Equal(t, codes.Unset, span.Status().Code)
			}
			if i > 1 { // it was late after that
				delete(want, "lockbeat.lag")
			}
			require.Subset(t, attrs(span.Attributes()), want)
		}
	}, tracing.WithRenewSpans())
}

// A batch of a thousand has no more links than the SDK keeps.
func TestRenewSpansHaveSoManyLinks(t *testing.T) {
	t.Parallel()
	s := newSeen()
	o := tracing.New(append(s.to, tracing.WithRenewSpans())...)
	var leases []context.Context
	for i := range mostLinks + 10 {
		name := fmt.Sprint(i)
		start := renewer.AcquireStart{Name: name}
		ctx := o.AcquireStart(t.Context(), start)
		o.Claim(ctx)
		leases = append(leases,
			o.AcquireEnd(ctx, renewer.AcquireEnd{AcquireStart: start, Fence: 1}))
	}
	unsampled := trace.ContextWithRemoteSpanContext(t.Context(), parent(false))
	start := renewer.AcquireStart{Name: "unsampled"}
	unsampled = o.AcquireStart(unsampled, start)
	leases = slices.Insert(leases, 0, t.Context(),
		o.AcquireEnd(unsampled, renewer.AcquireEnd{AcquireStart: start, Fence: 1}))
	ctx := o.RenewStart(t.Context(),
		renewer.RenewStart{Leases: len(leases), Contexts: slices.Values(leases)})
	o.Renewed(ctx, renewer.Renewed{
		Leases: len(leases), OK: len(leases) - 3, Gone: 1, Failed: 2, Lag: 250 * time.Millisecond,
	})
	n, lag := s.durations(t, "lockbeat.renew.lag", map[string]any{})
	require.Equal(t, uint64(1), n, "once a batch")
	require.InDelta(t, .25, lag, 1e-9)
	for outcome, want := range map[string]int{"ok": len(leases) - 3, "gone": 1, "failed": 2} {
		require.Equal(t, int64(want),
			s.sum(t, "lockbeat.renewals", map[string]any{"lockbeat.outcome": outcome}))
	}
	span := s.the(t, "lockbeat.renew")
	require.Len(t, span.Links(), mostLinks)
	require.Zero(t, span.DroppedLinks())
	require.Equal(t, int64(len(leases)), attrs(span.Attributes())["lockbeat.leases"])
	for _, l := range span.Links() {
		require.True(t, l.SpanContext.IsSampled())
	}
}

// Without a provider for our spans the heartbeat is as quiet as
// without the option, and one that the sampler leaves out is too.
func TestRenewSpansThatAreNotTaken(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]tracing.Option{
		"no provider":  {noSpans, noMetrics},
		"not sampled":  append(newSeen(leaveOut("lockbeat.")).to, noMetrics),
		"not recorded": append(newSeen(sdktrace.NeverSample()).to, noMetrics),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tracing.New(append(opts, tracing.WithRenewSpans())...)
			ctx := o.RenewStart(t.Context(),
				renewer.RenewStart{
					Leases:   1,
					Contexts: slices.Values([]context.Context{t.Context()}),
				})
			require.True(t, trace.SpanContextFromContext(ctx).IsValid())
			require.False(t, trace.SpanContextFromContext(ctx).IsSampled())
			o.Renewed(ctx, renewer.Renewed{Leases: 1, Failed: 1, Err: errors.New("down")})
		})
	}
}
