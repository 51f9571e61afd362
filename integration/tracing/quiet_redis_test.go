package tracing_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis/rueidisotel"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/tracing"
)

// instrumented is a keeper on a real server, through a client whose
// every command is a span if its parent, or the lack of one, lets it.
func instrumented(
	t *testing.T, opts ...tracing.Option,
) (*renewer.Keeper, *tracetest.SpanRecorder, trace.Tracer, *redistest.Server) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(
			sdktrace.ParentBased(sdktrace.AlwaysSample()),
		))
	server := redistest.Start(t)
	const ttl = 10 * time.Second // a client must connect in a fraction of it
	option, err := redisstore.ClientOption(server.ClientOption(), ttl)
	require.NoError(t, err)
	client, err := rueidisotel.NewClient(option, rueidisotel.WithTracerProvider(provider))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	k, err := renewer.New(store, renewer.Config{
		TTL: ttl, Heartbeat: 200 * time.Millisecond, RequestTimeout: 1200 * time.Millisecond,
		Observer: tracing.New(append(opts, tracing.WithTracerProvider(provider), noMetrics)...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = k.Shutdown(ctx) // a test that failed may have left a lease
	})
	return k, spans, provider.Tracer("program"), server
}

// since are the spans that began after the n-th, without those of the one connection on which a
// keeper listens from its first renewal on.
func since(spans *tracetest.SpanRecorder, n int) (names []string) {
	for _, span := range spans.Started()[n:] {
		switch name := span.Name(); name {
		case "SUBSCRIBE", "DEL", "redis.dial":
		default:
			names = append(names, name)
		}
	}
	return names
}

// A renewal is no span, nor is a clean-up, though the client makes
// one of everything; what a caller waits for is.
func TestARenewalIsNoSpanOfTheRedisClient(t *testing.T) {
	t.Parallel()
	k, spans, tracer, server := instrumented(t)
	ctx, request := tracer.Start(t.Context(), "request")
	l, err := k.Acquire(ctx, renewer.Request{Name: "a"})
	require.NoError(t, err)
	children := 0
	for _, span := range spans.Ended() {
		if span.SpanKind() == trace.SpanKindClient &&
			span.Parent().TraceID() == request.SpanContext().TraceID() {
			children++
		}
	}
	require.Positive(t, children, "the client is instrumented")

	begun, calls := len(spans.Started()), evals(t, server)
	require.Eventually(t, func() bool {
		return evals(t, server) >= calls+10
	}, 30*time.Second, 10*time.Millisecond)
	require.Empty(t, since(spans, begun), "ten renewals")
	require.NoError(t, l.Context().Err())
	require.NoError(t, l.Release(l.Context()))
	require.Contains(t, since(spans, begun), "EVALSHA", "the release is in the caller's trace")
	request.End()

	// An acquire is not answered, so that what it may leave must be cleaned up.
	begun, calls = len(spans.Started()), evals(t, server)
	require.NoError(t, server.Stop())
	_, err = k.Acquire(t.Context(), renewer.Request{Name: "b", Try: true})
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.NoError(t, server.Cont())
	require.Eventually(t, func() bool {
		return evals(t, server) >= calls+2
	}, 30*time.Second, 10*time.Millisecond)
	evalshas := slices.DeleteFunc(since(spans, begun), func(name string) bool {
		return name != "EVALSHA"
	})
	require.Len(t, evalshas, 1, "that of the acquire")
}

// evals counts the scripts that the server has run.
func evals(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	n, err := server.Calls("evalsha")
	require.NoError(t, err)
	return n
}
