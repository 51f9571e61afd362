package tracing_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/tracing"
)

// A leader leads for weeks: each piece of its work is a trace of its
// own, which links to the hold. One trace of all would never end.
func TestALeadersWorkIsInTracesOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, within := range []bool{false, true} { // a span of the caller's
		inBubble(t, func(t *testing.T, s *scene) {
			ctx := t.Context()
			if within {
				request, span := s.request(t)
				ctx = request
				defer span.End()
			}
			require.NoError(t,
				lockmw.Lead(ctx, s.keeper, "leader", func(ctx context.Context) error {
					for range 3 {
						_, span := s.tracer.Start(ctx, "piece", trace.WithLinks(tracing.Link(ctx)))
						span.End()
					}
					_, err := lockmw.Do(ctx, s.keeper, "inner",
						func(ctx context.Context) (int, error) {
							_, span := s.tracer.Start(ctx, "within")
							span.End()
							return 0, nil
						}, lockmw.Operation("inner"))
					return err
				}))
			holds, acquires := s.named("lockbeat.hold"), s.named("lockbeat.acquire")
			require.Len(t, holds, 2)
			inner, lead := holds[0], holds[1].SpanContext()
			traces := map[trace.TraceID]bool{lead.TraceID(): true}
			pieces := append(s.named("piece"), acquires[1])
			require.Len(t, pieces, 4)
			for _, span := range pieces {
				require.False(t, span.Parent().IsValid(), "a root")
				require.False(t, traces[span.SpanContext().TraceID()], "a trace of its own")
				traces[span.SpanContext().TraceID()] = true
				require.Len(t, span.Links(), 1)
				require.Equal(t, lead, span.Links()[0].SpanContext)
			}
			require.Equal(t, inner.SpanContext(), s.the(t, "within").Parent(),
				"below the inner lock as usual")
		})
	}
}

func TestLinkWithoutALock(t *testing.T) {
	t.Parallel()
	require.Zero(t, tracing.Link(t.Context()))
	inBubble(t, func(t *testing.T, s *scene) {
		lease := s.acquire(t.Context(), t, "a")
		_, span := s.tracer.Start(t.Context(), "nothing",
			trace.WithLinks(tracing.Link(t.Context())))
		span.End()
		require.Empty(t, s.the(t, "nothing").Links())
		link := tracing.Link(lease.Context())
		require.NoError(t, lease.Release(t.Context()))
		require.Equal(t, s.the(t, "lockbeat.hold").SpanContext(), link.SpanContext)
	})
}
