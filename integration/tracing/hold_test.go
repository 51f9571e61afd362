package tracing_test

import (
	"context"
	"net"
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

// The operation's own span has the event too, and no status: what it
// does about the loss is its own affair.
func TestALossIsOnBothSpans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Default(script.Renew, script.Fail(&net.OpError{Op: "dial", Err: errDown}))
		ctx, request := s.request(t)
		l := s.acquire(ctx, t, "order:42", renewer.Request{Operation: "charge"})
		<-l.Context().Done()
		waitFor(3 * time.Second)
		require.ErrorIs(t, l.Release(l.Context()), renewer.ErrLost)
		request.End()

		hold, own := s.the(t, "lockbeat.hold"), s.the(t, "request")
		want := map[string]any{
			"lockbeat.operation": "charge", "lockbeat.reason": "expired",
			"lockbeat.fence": l.Fence(), "error.type": "network",
			"lockbeat.key_hash": renewer.HashName("order:42", nil),
		}
		for _, span := range []sdktrace.ReadOnlySpan{hold, own} {
			events := named(span, "lockbeat.lost")
			require.Len(t, events, 1, span.Name())
			got := attrs(events[0].Attributes)
			require.InDelta(t, config.Margin.Seconds(), got["lockbeat.left"], 1e-6)
			delete(got, "lockbeat.left")
			require.Equal(t, want, got)
			require.WithinDuration(t, hold.StartTime().Add(9*time.Second), events[0].Time,
				time.Microsecond)
		}
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "lock lost: expired"},
			hold.Status())
		require.Equal(t, codes.Unset, own.Status().Code)
		got := attrs(hold.Attributes())
		require.InDelta(t, 3, got["lockbeat.overrun"], 1e-6)
		delete(got, "lockbeat.overrun")
		require.Equal(t, map[string]any{
			"lockbeat.operation": "charge", "lockbeat.outcome": "lost",
			"lockbeat.reason": "expired", "lockbeat.fence": l.Fence(),
			"lockbeat.key_hash": renewer.HashName("order:42", nil), "lockbeat.renewals": int64(0),
		}, got)

		require.Equal(t, int64(1),
			s.sum(t, "lockbeat.losses",
				map[string]any{"lockbeat.operation": "charge", "lockbeat.reason": "expired"}))
		_, overrun := s.durations(t, "lockbeat.overrun.duration",
			map[string]any{"lockbeat.operation": "charge", "lockbeat.reason": "expired"})
		require.InDelta(t, 3, overrun, 1e-6)
		n, held := s.durations(t, "lockbeat.hold.duration",
			map[string]any{"lockbeat.operation": "charge", "lockbeat.outcome": "lost"})
		require.Equal(t, uint64(1), n)
		require.InDelta(t, 9, held, 1e-6, "up to the loss")
	})
}

// named are a span's events of a name.
func named(span sdktrace.ReadOnlySpan, name string) []sdktrace.Event {
	var found []sdktrace.Event
	for _, e := range span.Events() {
		if e.Name == name {
			found = append(found, e)
		}
	}
	return found
}

// Every reason for a loss is shown, also one that only the release finds.
func TestReasonsForALoss(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, s *scene, l *renewer.Lease){
		"taken": func(_ *testing.T, s *scene, l *renewer.Lease) {
			s.store.Delete("a")
			<-l.Context().Done()
		},
		"taken, by another owner": func(_ *testing.T, s *scene, l *renewer.Lease) {
			s.store.Overwrite("a", other, time.Minute)
			<-l.Context().Done()
		},
		"taken, by another program": func(_ *testing.T, s *scene, l *renewer.Lease) {
			s.store.Default(script.Renew, script.Overwritten())
			<-l.Context().Done()
		},
		"taken, found at the release": func(_ *testing.T, s *scene, _ *renewer.Lease) {
			s.store.Delete("a")
		},
		"shutdown": func(t *testing.T, s *scene, _ *renewer.Lease) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.Error(t, s.keeper.Shutdown(ctx))
			s.cutShort = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reason := name[:len("taken")]
			if name == "shutdown" {
				reason = name
			}
			inBubble(t, func(t *testing.T, s *scene) {
				l := s.acquire(t.Context(), t, "a")
				lose(t, s, l)
				require.ErrorIs(t, l.Release(l.Context()), renewer.ErrLost)
				synctest.Wait() // the engine may report the loss after the release
				hold := s.the(t, "lockbeat.hold")
				require.Len(t, named(hold, "lockbeat.lost"), 1)
				require.Equal(t, reason, attrs(hold.Attributes())["lockbeat.reason"])
				want := map[string]any{
					"taken": "deleted", "taken, found at the release": "deleted",
					"taken, by another owner": "owner", "taken, by another program": "overwritten",
				}
				told := attrs(named(hold, "lockbeat.lost")[0].Attributes)
				require.Equal(t, want[name], told["lockbeat.found"])
				require.Equal(t, want[name], attrs(hold.Attributes())["lockbeat.found"])
				who := map[string]any{"taken, by another owner": "web-2"}
				require.Equal(t, who[name], told["lockbeat.holder.host"])
				require.Equal(t, "lock lost: "+reason, hold.Status().Description)
				require.Equal(t, int64(1),
					s.sum(t, "lockbeat.losses", map[string]any{"lockbeat.reason": reason}))
				n, _ := s.durations(t, "lockbeat.overrun.duration",
					map[string]any{"lockbeat.reason": reason})
				require.Equal(t, uint64(1), n)
			})
		})
	}
}

// The engine reports a loss and the release from two goroutines. The span,
// which ends with the release, has the event either way, and has it once.
func TestALossMayBeToldAfterTheRelease(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{
		"loss first":    {"lost", "released"},
		"release first": {"released", "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeen()
			o := tracing.New(s.to...)
			ctx, request := s.request(t)
			start := renewer.AcquireStart{Name: "a"}
			ctx = o.AcquireStart(ctx, start)
			o.Claim(ctx)
			ctx = o.AcquireEnd(ctx, renewer.AcquireEnd{AcquireStart: start, Fence: 7})
			loss := &renewer.LostError{Name: "a", Reason: renewer.ReasonMaxHold, Fence: 7}
			for _, what := range order {
				if what == "lost" {
					o.Lost(ctx, renewer.Lost{Name: "a", Fence: 7, Err: loss})
				} else {
					o.Released(ctx, renewer.Released{Name: "a", Fence: 7, Lost: loss})
				}
			}
			request.End()
			require.Len(t, named(s.the(t, "lockbeat.hold"), "lockbeat.lost"), 1)
			require.Len(t, named(s.the(t, "request"), "lockbeat.lost"), 1)
			require.Equal(t, codes.Error, s.the(t, "lockbeat.hold").Status().Code)
			require.Zero(t, s.sum(t, "lockbeat.held", map[string]any{}))
			require.Equal(t, int64(1),
				s.sum(t, "lockbeat.losses", map[string]any{"lockbeat.reason": "max_hold"}))
		})
	}
}

// A key that could not be freed is an error of its hold, and no loss.
func TestAFailedRelease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Release, script.Hang(), script.Pass())
		l := s.acquire(t.Context(), t, "a")
		require.ErrorIs(t, l.Release(l.Context()), renewer.ErrUnavailable)
		hold := s.the(t, "lockbeat.hold")
		events := named(hold, "lockbeat.release.failed")
		require.Len(t, events, 1)
		require.Equal(t, map[string]any{"error.type": "timeout"}, attrs(events[0].Attributes))
		require.Equal(t, codes.Error, hold.Status().Code)
		require.Equal(t, "released", attrs(hold.Attributes())["lockbeat.outcome"])
		require.Zero(t, s.sum(t, "lockbeat.losses", map[string]any{}))
	})
}

// Only heartbeats that failed or were late are events; the others are counted.
func TestMissedHeartbeats(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Renew, script.Pass(), script.Fail(renewer.ErrRejected), script.Hang())
		l := s.acquire(t.Context(), t, "a")
		waitFor(time.Minute)
		require.NoError(t, l.Release(l.Context()))
		hold := s.the(t, "lockbeat.hold")
		failed, late := named(hold, "lockbeat.renew.failed"), named(hold, "lockbeat.renew.late")
		require.Len(t, hold.Events(), len(failed)+len(late))
		require.Len(t, failed, 2)
		require.Equal(t, "rejected", attrs(failed[0].Attributes)["error.type"])
		require.Zero(t, attrs(failed[0].Attributes)["lockbeat.lag"])
		require.Equal(t, "timeout", attrs(failed[1].Attributes)["error.type"])
		require.Positive(t, attrs(failed[1].Attributes)["lockbeat.lag"])
		require.Len(t, late, 1)
		require.Greater(t, attrs(late[0].Attributes)["lockbeat.lag"],
			config.RequestTimeout.Seconds())
		require.Greater(t, attrs(late[0].Attributes)["lockbeat.left"],
			attrs(failed[1].Attributes)["lockbeat.left"])
		require.NotContains(t, attrs(late[0].Attributes), "error.type")
		require.Equal(t, codes.Unset, hold.Status().Code, "nothing was lost")
		require.Greater(t, attrs(hold.Attributes())["lockbeat.renewals"], int64(10))
		require.Equal(t, attrs(hold.Attributes())["lockbeat.renewals"],
			s.sum(t, "lockbeat.renewals", map[string]any{"lockbeat.outcome": "ok"}))
		require.Equal(t, int64(2),
			s.sum(t, "lockbeat.renewals", map[string]any{"lockbeat.outcome": "failed"}))
	})
}

// Lease.Release takes any context. That of another lock must not end the other's span.
func TestAReleaseWithAnotherContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		outer := s.acquire(t.Context(), t, "outer")
		inner := s.acquire(outer.Context(), t, "inner")
		require.NoError(t, inner.Release(outer.Context()))
		require.Equal(t, inner.Fence(),
			attrs(s.the(t, "lockbeat.hold").Attributes())["lockbeat.fence"])
		require.NoError(t, outer.Release(context.Background()))
		require.Len(t, s.named("lockbeat.hold"), 2)
	})
}

// slowSpan is a caller's span that takes its time for an event.
type slowSpan struct {
	trace.Span

	entered, goOn chan struct{}
}

func (s slowSpan) IsRecording() bool { return true }

func (s slowSpan) AddEvent(string, ...trace.EventOption) {
	close(s.entered)
	<-s.goOn
}

// The operation may end while the engine is still about to tell of
// the loss: the hold must not end before it is on it.
func TestALossIsToldWhileTheOperationEnds(t *testing.T) {
	t.Parallel()
	s := newSeen()
	o := tracing.New(s.to...)
	caller := slowSpan{trace.SpanFromContext(t.Context()), make(chan struct{}), make(chan struct{})}
	start := renewer.AcquireStart{Name: "a"}
	ctx := o.AcquireStart(trace.ContextWithSpan(t.Context(), caller), start)
	o.Claim(ctx)
	ctx = o.AcquireEnd(ctx, renewer.AcquireEnd{AcquireStart: start, Fence: 1})
	loss := &renewer.LostError{Name: "a", Reason: renewer.ReasonExpired, Fence: 1}
	told, released := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		o.Lost(ctx, renewer.Lost{Name: "a", Fence: 1, Err: loss})
	}()
	<-caller.entered
	go func() {
		defer close(released)
		o.Released(ctx, renewer.Released{Name: "a", Fence: 1, Lost: loss})
	}()
	select {
	case <-released: // it must not
	case <-time.After(50 * time.Millisecond):
	}
	close(caller.goOn)
	<-told
	<-released
	hold := s.the(t, "lockbeat.hold")
	require.Equal(t, codes.Error, hold.Status().Code)
	require.Len(t, hold.Events(), 1)
}
