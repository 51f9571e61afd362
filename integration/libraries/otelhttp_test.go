package libraries_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// Wherever otelhttp and the lock stand, the spans are as without the
// lock, and the handler runs in one.
func TestSpansOfHTTPAreAsWithoutUs(t *testing.T) {
	t.Parallel()
	route := func(h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("GET /accounts/{id}", h)
		return mux
	}
	for name, c := range map[string]struct {
		build func(otel, lock middleware, h http.Handler) http.Handler
		want  string
	}{
		"otelhttp around the mux": {func(otel, lock middleware, h http.Handler) http.Handler {
			return otel(route(lock(h)))
		}, "GET /accounts/{id}"},
		"otelhttp and the lock around a mux": {func(otel, lock middleware,
			h http.Handler,
		) http.Handler {
			return otel(lock(route(h)))
		}, "GET /accounts/{id}"},
		"the lock around otelhttp": {func(otel, lock middleware, h http.Handler) http.Handler {
			return lock(otel(route(h)))
		}, "GET /accounts/{id}"},
		"otelhttp on the route, outside": {func(otel, lock middleware,
			h http.Handler,
		) http.Handler {
			return route(otel(lock(h)))
		}, "GET /accounts/{id}"},
		"otelhttp on the route, inside": {func(otel, lock middleware, h http.Handler) http.Handler {
			return route(lock(otel(h)))
		}, "GET /accounts/{id}"},
		"chi, otelhttp around it": {func(otel, lock middleware, h http.Handler) http.Handler {
			r := chi.NewRouter()
			r.With(lock).Method(http.MethodGet, "/accounts/{id}", h)
			return otel(r)
		}, "GET"}, // chi's request is a copy
		"chi, both by Use": {func(otel, lock middleware, h http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Use(otel, lock)
			r.Method(http.MethodGet, "/accounts/{id}", h)
			return r
		}, "GET /accounts/{id}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			lock := httpmw.Middleware(k, func(*http.Request) string { return "a" })
			without := func(h http.Handler) http.Handler { return h }
			run := func(lock middleware) (string, string, bool) {
				spans := tracetest.NewSpanRecorder()
				otel := otelhttp.NewMiddleware("server",
					otelhttp.WithTracerProvider(
						sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
					))
				inside := false
				h := c.build(otel, lock,
					http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						inside = trace.SpanFromContext(r.Context()).IsRecording()
						ok(w, r)
					}))
				require.Equal(t, "done", send(t, h, http.MethodGet, "/accounts/7").body)
				require.Len(t, spans.Ended(), 1)
				span := spans.Ended()[0]
				attributes := attribute.NewSet(span.Attributes()...)
				value, _ := attributes.Value("http.route")
				return span.Name(), value.AsString(), inside
			}
			spanName, route, inside := run(lock)
			assert.Len(t, store.Calls("acquire"), 1)
			assert.Equal(t, c.want, spanName)
			assert.True(t, inside)
			wantName, wantRoute, _ := run(without)
			assert.Equal(t, wantName, spanName)
			assert.Equal(t, wantRoute, route)
		})
	}
}
