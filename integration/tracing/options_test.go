package tracing_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// A nil is ignored wherever one can be given.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	s := newSeen()
	o := tracing.New(append(s.to, nil, tracing.WithTracerProvider(nil),
		tracing.WithMeterProvider(nil), tracing.WithPropagator(nil),
		tracing.WithSpanNameFormatter(nil), tracing.WithFilter(
			nil,
		), tracing.WithAttributes(), tracing.WithKey(tracing.KeyMode(99)))...)
	_, holding, told := began(t.Context(), o)
	o.Released(holding, renewer.Released{Name: "a", Operation: "charge", Fence: 1})
	require.Equal(t, traceparent(s.the(t, "lockbeat.hold").SpanContext()), told)
	require.Contains(t, s.metrics(t), "lockbeat.hold.duration")
}

// Without options, and with nothing set up by the program, locks work.
func TestNoOptions(t *testing.T) {
	t.Parallel()
	o := tracing.New()
	life(t.Context(), o)
	renewal(t.Context(), o)
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

func TestSpanNames(t *testing.T) {
	t.Parallel()
	s := newSeen()
	var calls atomic.Int64
	o := tracing.New(append(s.to, tracing.WithRenewSpans(),
		tracing.WithSpanNameFormatter(func(kind, operation string) string {
			calls.Add(1)
			if kind == "lockbeat.renew" {
				return ""
			}
			return strings.TrimSpace(kind + " " + operation)
		}))...)
	for range 3 {
		start := renewer.AcquireStart{Name: "a", Operation: "charge"}
		ctx := o.AcquireStart(t.Context(), start)
		o.Claim(ctx)
		o.Claim(ctx)
		ctx = o.AcquireEnd(ctx, renewer.AcquireEnd{AcquireStart: start, Fence: 1})
		o.Released(ctx, renewer.Released{Name: "a", Operation: "charge", Fence: 1})
		life(t.Context(), o)
		o.Renewed(o.RenewStart(t.Context(),
			renewer.RenewStart{Contexts: func(func(context.Context) bool) {}}), renewer.Renewed{})
	}
	require.Equal(t, int64(4), calls.Load(), "once for each kind and operation")
	for name, n := range map[string]int{
		"lockbeat.acquire charge": 6, "lockbeat.attempt charge": 3, "lockbeat.hold charge": 6,
		"lockbeat.renew": 3,
	} {
		require.Len(t, s.named(name), n, name)
	}
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
		require.Len(t, s.metrics(t), 8)
		for name, m := range s.metrics(t) {
			for _, set := range sets(m) {
				got := attrs(set.ToSlice())
				require.Equal(t, "billing", got["team"], name)
				require.Equal(t, int64(3), got["zone"], name)
				if got["lockbeat.reason"] == nil && name != "lockbeat.held" &&
					name != "lockbeat.waiting" && name != "lockbeat.renew.lag" {
					require.NotEqual(t, "mine", got["lockbeat.outcome"], name)
				}
			}
		}
	}, static, tracing.WithAttributes(attribute.Int("zone", 3)))
}

// The attributes of one operation are not mixed up with another's.
func TestStaticAttributesOfTwoOperations(t *testing.T) {
	t.Parallel()
	s := newSeen()
	for i := range 3 { // for a slice with room to spare
		s.to = append(s.to, tracing.WithAttributes(attribute.Int("static", i),
			attribute.Int(string(rune('a'+i)), i)))
	}
	o := tracing.New(s.to...)
	for _, operation := range []string{"one", "two", "one"} {
		start := renewer.AcquireStart{Name: "a", Operation: operation}
		o.AcquireEnd(o.AcquireStart(t.Context(), start),
			renewer.AcquireEnd{AcquireStart: start, Err: renewer.ErrHeld})
	}
	for i, operation := range []string{"one", "two", "one"} {
		require.Equal(t, operation,
			attrs(s.named("lockbeat.acquire")[i].Attributes())["lockbeat.operation"])
	}
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
		"off":    {opts: []tracing.Option{tracing.WithKey(tracing.KeyModeOff)}},
		"hashed": {key: "lockbeat.key_hash", value: hash},
		"keyed": {
			opts: []tracing.Option{keyed},
			key:  "lockbeat.key_hash", value: "e7aaf33aa80824e8",
		},
		"plain": {
			opts: []tracing.Option{tracing.WithKey(tracing.KeyModePlain)}, key: "lockbeat.key",
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
				_, err := s.keeper.TryAcquire(ctx, "secret:42")
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
			renewer.Operation("op\x00"+strings.Repeat("é", 200)))
		s.store.Delete("a\n\x1b[31m\xff")
		require.ErrorIs(t, l.Release(l.Context()), renewer.ErrLost)
		got := attrs(s.the(t, "lockbeat.hold").Attributes())
		told := attrs(named(s.the(t, "lockbeat.hold"), "lockbeat.lost")[0].Attributes)
		require.Equal(t, got["lockbeat.key"], told["lockbeat.key"])
		require.Equal(t, got["lockbeat.operation"], told["lockbeat.operation"])
		require.Equal(t, "a\uFFFD\uFFFD[31m\uFFFD", got["lockbeat.key"])
		require.LessOrEqual(t, len(got["lockbeat.operation"].(string)), 128)
		require.True(t, strings.HasPrefix(got["lockbeat.operation"].(string), "op\uFFFDéé"))
	}, tracing.WithKey(tracing.KeyModePlain))
}

// A secret that was not filled in must not pass for protection.
func TestAnEmptySecretPanics(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t,
		"lockbeat: tracing.WithKeySecret needs a secret: 32 random bytes, the same in every "+
			"process, or leave it out",
		func() { tracing.WithKeySecret(nil) })
}

// A lock that is left out has no telemetry, also inside of one that
// is not, and the other way around.
func TestFilter(t *testing.T) {
	t.Parallel()
	for name, filters := range map[string][]tracing.Option{
		"by name": {tracing.WithFilter(func(name, _ string) bool { return name != "hidden" })},
		"by operation": {tracing.WithFilter(func(_, operation string) bool {
			return operation != "hide"
		})},
		"all must allow": {
			tracing.WithFilter(func(name, _ string) bool {
				return name != "hidden"
			}), tracing.WithFilter(func(string, string) bool { return true }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *scene) {
				outer := s.acquire(t.Context(), t, "shown", renewer.Operation("show"))
				hidden := s.acquire(outer.Context(), t, "hidden", renewer.Operation("hide"))
				require.Empty(t, s.store.Calls(script.Acquire)[1].Claims[0].Holder.Trace)
				inner := s.acquire(hidden.Context(), t, "shown too", renewer.Operation("show"))
				require.NoError(t, inner.Release(inner.Context()))
				_, err := s.keeper.TryAcquire(hidden.Context(), "hidden", renewer.Operation("hide"))
				require.ErrorIs(t, err, renewer.ErrHeld)
				s.store.Script(script.Renew, script.Fail(errDown), script.Fail(errDown))
				waitFor(config.TTL / 2)
				s.store.Delete("hidden")
				<-hidden.Context().Done()
				waitFor(0)
				require.ErrorIs(t, hidden.Release(outer.Context()), renewer.ErrLost)
				require.NoError(t, outer.Release(outer.Context()))

				holds := s.named("lockbeat.hold")
				require.Len(t, holds, 2)
				require.Equal(t, holds[1].SpanContext(), holds[0].Parent(),
					"what is left out is no link in the chain")
				require.Empty(t, named(holds[1], "lockbeat.lost"))
				require.Len(t, s.named("lockbeat.acquire"), 2)
				n, _ := s.durations(t, "lockbeat.hold.duration",
					map[string]any{"lockbeat.operation": "show", "lockbeat.outcome": "released"})
				require.Equal(t, uint64(2), n)
				for _, m := range s.metrics(t) {
					for _, set := range sets(m) {
						operation, _ := set.Value("lockbeat.operation")
						require.NotEqual(t, "hide", operation.AsString(), m.Name)
					}
				}
				require.NotContains(t, s.metrics(t), "lockbeat.losses")
			}, filters...)
		})
	}
}

// upsideDown is a propagator of the program's own: it keeps a secret
// between processes by turning the text around.
type upsideDown struct{ propagation.TraceContext }

func (u upsideDown) Inject(ctx context.Context, c propagation.TextMapCarrier) {
	u.TraceContext.Inject(ctx, c)
	c.Set("baggage", "user=42")
	c.Set("traceparent", turned(c.Get("traceparent")))
}

func (u upsideDown) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	for _, field := range []string{"tracestate", "baggage"} {
		if c.Get(field) != "" {
			panic("the store keeps no " + field)
		}
	}
	return u.TraceContext.Extract(ctx,
		propagation.MapCarrier{"traceparent": turned(c.Get(c.Keys()[0]))})
}

func turned(s string) string {
	b := []byte(s)
	for i := range len(b) / 2 {
		b[i], b[len(b)-1-i] = b[len(b)-1-i], b[i]
	}
	return string(b)
}

func TestPropagators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		propagator propagation.TextMapPropagator
		told       func(trace.SpanContext) string
		linked     bool
	}{
		"several": {
			propagation.NewCompositeTextMapPropagator(propagation.Baggage{},
				propagation.TraceContext{}), traceparent, true,
		},
		"one's own": {upsideDown{}, func(sc trace.SpanContext) string {
			return turned(traceparent(sc))
		}, true},
		"none": {propagation.NewCompositeTextMapPropagator(), func(trace.SpanContext) string {
			return ""
		}, false},
		"baggage": {propagation.Baggage{}, func(trace.SpanContext) string { return "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *scene) {
				l := s.acquire(t.Context(), t, "a")
				_, err := s.keeper.TryAcquire(t.Context(), "a")
				require.ErrorIs(t, err, renewer.ErrHeld)
				require.NoError(t, l.Release(l.Context()))
				hold := s.the(t, "lockbeat.hold").SpanContext()
				require.Equal(t, c.told(hold),
					s.store.Calls(script.Acquire)[0].Claims[0].Holder.Trace)
				links := s.named("lockbeat.acquire")[1].Links()
				if !c.linked {
					require.Empty(t, links)
					return
				}
				require.Len(t, links, 1)
				require.Equal(t, traceparent(hold), traceparent(links[0].SpanContext))
			}, tracing.WithPropagator(c.propagator))
		})
	}
}
