package tracing_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// A nil is ignored wherever one can be given.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	s := newSeen()
	o := tracing.New(append(s.to, nil, tracing.WithTracerProvider(nil),
		tracing.WithMeterProvider(nil), tracing.WithAttributes())...)
	_, holding, told := began(t.Context(), o)
	o.Released(holding, renewer.Released{Name: "a", Operation: "charge", Fence: 1})
	require.Equal(t, traceparent(s.the(t, "lockbeat.hold").SpanContext()), told)
	require.Contains(t, s.metrics(t), "lockbeat.hold.duration")
}

// global is the program's telemetry, set up when it is asked for.
// Those who were there before follow only the first to be set.
var global = sync.OnceValue(func() *seen {
	s := newSeen()
	otel.SetTracerProvider(s.tracers)
	otel.SetMeterProvider(s.meters)
	return s
})

// A program may set up its telemetry after its keepers.
//
//nolint:paralleltest // it sets the program's providers
func TestGlobalProvidersThatAreSetLater(t *testing.T) {
	o := tracing.New()
	life(t.Context(), o)
	s := global()
	before := len(s.named("lockbeat.hold"))
	life(t.Context(), o)
	require.Len(t, s.named("lockbeat.hold"), before+1)
	require.Contains(t, s.metrics(t), "lockbeat.hold.duration")
	require.Contains(t, s.metrics(t), "lockbeat.held")
}

// Static attributes are on every span and every metric, and give way to our own.
func TestStaticAttributes(t *testing.T) {
	t.Parallel()
	all := []attribute.KeyValue{
		attribute.String("team", "billing"),
		attribute.String("lockbeat.outcome", "mine"),
	}
	static := tracing.WithAttributes(all...)
	all[0] = attribute.String("changed", "later")
	inBubble(t, func(t *testing.T, s *scene) {
		l := s.acquire(t.Context(), t, "a")
		waitFor(config.TTL)
		s.store.Delete("a")
		<-l.Context().Done()
		require.Error(t, l.Release(l.Context()))
		synctest.Wait()
		for _, span := range s.spans.Ended() {
			require.Equal(t, "billing", attrs(span.Attributes())["team"])
			require.Equal(t, int64(3), attrs(span.Attributes())["zone"])
		}
		require.Equal(t, "lost", attrs(s.the(t, "lockbeat.hold").Attributes())["lockbeat.outcome"])
		require.Len(t, s.metrics(t), 15)
		for name, m := range s.metrics(t) {
			for _, set := range sets(m) {
				got := attrs(set.ToSlice())
				require.Equal(t, "billing", got["team"], name)
				require.Equal(t, int64(3), got["zone"], name)
				if strings.HasSuffix(name, ".duration") && got["lockbeat.reason"] == nil {
					require.NotEqual(t, "mine", got["lockbeat.outcome"], name)
				}
			}
		}
	}, static, tracing.WithAttributes(attribute.Int("zone", 3)))
}

// What keys there are on spans: hashes by default, and the name only if it was asked for, whatever
// goes wrong.
func TestKeys(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("secret:42"))
	pepper := []byte("pepper")
	keyed := tracing.WithKeySecret(pepper)
	clear(pepper)
	hash := hex.EncodeToString(sum[:8])
	for name, c := range map[string]struct {
		opts  []tracing.Option
		key   string
		value string
	}{
		"hashed": {key: "lockbeat.key_hash", value: hash},
		"keyed": {
			opts: []tracing.Option{keyed},
			key:  "lockbeat.key_hash", value: "e7aaf33aa80824e8",
		},
		"plain": {
			opts: []tracing.Option{tracing.WithNames()}, key: "lockbeat.key",
			value: "secret:42",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *scene) {
				bad := errors.New("no answer about secret:42")
				s.store.Script(script.Acquire, script.Fail(bad))
				s.store.Script(script.Release, script.Pass(), script.Fail(bad))
				s.store.Default(script.Renew, script.Fail(bad))
				ctx, request := s.request(t)
				_, err := s.keeper.Acquire(ctx, renewer.Request{Name: "secret:42", Try: true})
				require.ErrorIs(t, err, renewer.ErrUnavailable)
				waitFor(0)
				lost := s.acquire(ctx, t, "secret:42")
				<-lost.Context().Done()
				require.Error(t, lost.Release(lost.Context()))
				waitFor(config.TTL)
				l := s.acquire(ctx, t, "secret:42")
				s.store.Script(script.Release, script.Fail(bad))
				require.Error(t, l.Release(l.Context()))
				request.End()

				require.Len(t, s.named("lockbeat.hold"), 2)
				for _, span := range append(s.named("lockbeat.acquire"),
					s.named("lockbeat.hold")...) {
					shown := maps.Clone(attrs(span.Attributes()))
					maps.DeleteFunc(shown, func(key string, _ any) bool {
						return key != "lockbeat.key" && key != "lockbeat.key_hash"
					})
					want := map[string]any{c.key: c.value}
					delete(want, "")
					require.Equal(t, want, shown, span.Name())
				}
				event := named(s.the(t, "request"), "lockbeat.lost")[0]
				if c.key != "" {
					require.Equal(t, c.value, attrs(event.Attributes)[c.key],
						"the request may have several locks")
				}
				for metric, m := range s.metrics(t) {
					for _, set := range sets(m) {
						require.NotContains(t, set.Encoded(attribute.DefaultEncoder()), "secret", metric)
					}
				}
				texts := 0
				for _, span := range s.spans.Ended() {
					texts += secrets(t, span, name == "plain")
				}
				require.Equal(t, name == "plain", texts > 5,
					"error texts are shown with the plain key, and only with it")
			}, c.opts...)
		})
	}
}

// secrets counts the error texts on a span. If the key is not allowed there, it fails if anything
// shows it.
func secrets(t *testing.T, span sdktrace.ReadOnlySpan, allowed bool) (texts int) {
	t.Helper()
	kvs := span.Attributes()
	for _, e := range span.Events() {
		kvs = append(kvs, e.Attributes...)
	}
	for _, kv := range append(kvs, attribute.String("status", span.Status().Description),
		attribute.String("name", span.Name())) {
		if kv.Key == "error.message" {
			texts++
			require.Contains(t, kv.Value.AsString(), "no answer about")
		}
		if !allowed {
			require.NotContains(t, kv.Value.String(), "secret", kv.Key)
		}
	}
	return texts
}

// A name may have any bytes, an attribute not.
func TestAKeyOfAnyBytes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		l := s.acquire(t.Context(), t, "a\n\x1b[31m\xff",
			renewer.Request{Operation: "op\x00" + strings.Repeat("é", 200)})
		s.store.Delete("a\n\x1b[31m\xff")
		require.ErrorIs(t, l.Release(l.Context()), renewer.ErrLost)
		got := attrs(s.the(t, "lockbeat.hold").Attributes())
		told := attrs(named(s.the(t, "lockbeat.hold"), "lockbeat.lost")[0].Attributes)
		require.Equal(t, got["lockbeat.key"], told["lockbeat.key"])
		require.Equal(t, got["lockbeat.operation"], told["lockbeat.operation"])
		require.Equal(t, "a\uFFFD\uFFFD[31m\uFFFD", got["lockbeat.key"])
		require.LessOrEqual(t, len(got["lockbeat.operation"].(string)), 128)
		require.True(t, strings.HasPrefix(got["lockbeat.operation"].(string), "op\uFFFDéé"))
	}, tracing.WithNames())
}

// A secret that was not filled in must not pass for protection.
func TestAnEmptySecretPanics(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t,
		"lockbeat: tracing.WithKeySecret needs a secret: 32 random bytes, the same in every "+
			"process, or leave it out",
		func() { tracing.WithKeySecret(nil) })
}
