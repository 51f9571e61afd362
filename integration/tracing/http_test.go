package tracing_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// The span of an instrumented HTTP server hears of the loss of a lock
// that its handler held, and keeps its own status.
func TestAnHTTPServersSpanHearsOfALoss(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	store := script.New()
	k := newKeeper(t, store, tracing.New(tracing.WithTracerProvider(provider), noMetrics))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := lockmw.Do(r.Context(), k, "account:42", func(ctx context.Context) (int, error) {
			_, span := provider.Tracer("program").Start(ctx, "debit")
			defer span.End()
			store.Delete("account:42")
			return 0, nil
		})
		assert.NoError(t, err, "a finished result stands")
		w.WriteHeader(http.StatusNoContent)
	})
	served := otelhttp.NewHandler(handler, "transfer", otelhttp.WithTracerProvider(provider))
	answer := httptest.NewRecorder()
	served.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"/transfer", http.NoBody))
	require.Equal(t, http.StatusNoContent, answer.Code)

	byName := make(map[string]sdktrace.ReadOnlySpan)
	for _, span := range spans.Ended() {
		byName[span.Name()] = span
		if span.SpanKind() == trace.SpanKindServer {
			byName["server"] = span
		}
	}
	server, hold := byName["server"], byName["lockbeat.hold"]
	require.Equal(t, server.SpanContext(), hold.Parent())
	require.Equal(t, hold.SpanContext(), byName["debit"].Parent())
	require.Len(t, named(server, "lockbeat.lost"), 1)
	require.Len(t, named(hold, "lockbeat.lost"), 1)
	require.Empty(t, server.Status().Description)
}

// A caller's span that ended before its lock, such as that of a
// request that started work in the background, is left alone.
func TestACallersSpanThatHasEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		ctx, request := s.request(t)
		l := s.acquire(ctx, t, "a", renewer.MaxWait(time.Second))
		request.End()
		s.store.Delete("a")
		<-l.Context().Done()
		require.Error(t, l.Release(l.Context()))
		require.Empty(t, s.the(t, "request").Events())
		require.Len(t, named(s.the(t, "lockbeat.hold"), "lockbeat.lost"), 1)
	})
}
