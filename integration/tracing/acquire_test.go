package tracing_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

func TestAnAcquireAndItsHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Acquire, script.Pass().Late(time.Second))
		ctx, request := s.request(t)
		begun := time.Now()
		l := s.acquire(ctx, t, "order:42", renewer.Request{Operation: "charge"})
		_, inside := s.tracer.Start(l.Context(), "inside")
		inside.End()
		waitFor(10 * time.Second)
		require.NoError(t, l.Release(l.Context()))
		request.End()

		acquire, hold := s.the(t, "lockbeat.acquire"), s.the(t, "lockbeat.hold")
		require.Equal(t, request.SpanContext(), acquire.Parent())
		require.Equal(t, request.SpanContext(), hold.Parent())
		require.Equal(t, hold.SpanContext(), s.the(t, "inside").Parent(),
			"hold is the parent of what runs under the lock")
		require.Equal(t, trace.SpanKindInternal, acquire.SpanKind())
		require.Equal(t, trace.SpanKindInternal, hold.SpanKind())
		require.Equal(t, map[string]any{
			"lockbeat.operation": "charge", "lockbeat.outcome": "granted",
			"lockbeat.attempts":  int64(1),
			"lockbeat.contended": false, "lockbeat.wait": 1.0,
			"lockbeat.key_hash": renewer.HashName("order:42", nil),
		}, attrs(acquire.Attributes()))
		require.Equal(t, map[string]any{
			"lockbeat.operation": "charge", "lockbeat.outcome": "released",
			"lockbeat.fence":    l.Fence(),
			"lockbeat.renewals": int64(len(s.store.Calls(script.Renew))),
			"lockbeat.key_hash": renewer.HashName("order:42", nil),
		}, attrs(hold.Attributes()))
		require.Equal(t, begun, hold.StartTime(),
			"the lease is counted from when the question was sent")
		require.Equal(t, time.Second, acquire.EndTime().Sub(begun))
		require.Equal(t, 11*time.Second, hold.EndTime().Sub(begun))
		for _, span := range s.spans.Ended() {
			require.Equal(t, codes.Unset, span.Status().Code)
			require.Empty(t, span.Links())
			require.Empty(t, span.Events())
		}
		require.Equal(t, "github.com/lockbeat/lockbeat/tracing", hold.InstrumentationScope().Name)
		require.NotEmpty(t, hold.InstrumentationScope().Version)
		require.Empty(t, s.named("lockbeat.attempt"))
		require.Empty(t, s.named("lockbeat.renew"))
	})
}

// Without a caller's span both are in one trace all the same.
func TestAHoldWithoutACallersSpanIsBelowItsAcquire(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		l := s.acquire(t.Context(), t, "a")
		require.NoError(t, l.Release(l.Context()))
		acquire, hold := s.the(t, "lockbeat.acquire"), s.the(t, "lockbeat.hold")
		require.False(t, acquire.Parent().IsValid())
		require.Equal(t, acquire.SpanContext(), hold.Parent())
	})
}

const theirTrace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

// A refused acquire shows the holder, links to it, and is no error.
func TestARefusalLinksToTheHolder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		theirs := other
		theirs.Trace = theirTrace
		s.store.Overwrite("a", theirs, time.Minute)
		waitFor(2500 * time.Millisecond)
		_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		acquire, attempt := s.the(t, "lockbeat.acquire"), s.the(t, "lockbeat.attempt")
		require.Equal(t, map[string]any{
			"lockbeat.outcome": "held", "lockbeat.attempts": int64(1), "lockbeat.contended": true,
			"lockbeat.wait":        0.0,
			"lockbeat.holder.host": "web-2", "lockbeat.holder.pid": int64(4711),
			"lockbeat.holder.operation": "refund",
			"lockbeat.holder.held_for":  2.5,
			"lockbeat.key_hash":         renewer.HashName("a", nil),
		}, attrs(acquire.Attributes()))
		require.Equal(t, codes.Unset, acquire.Status().Code)
		require.Equal(t, codes.Unset, attempt.Status().Code)
		require.Len(t, acquire.Links(), 1)
		require.Equal(t, theirTrace, traceparent(acquire.Links()[0].SpanContext))
		require.True(t, acquire.Links()[0].SpanContext.IsRemote())
		require.Empty(t, s.named("lockbeat.hold"))
	})
}

// traceparent is a span as others write it.
func traceparent(sc trace.SpanContext) string {
	return "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" +
		sc.TraceFlags().String()
}

// Each claim carries the span that its grant would begin. Claims that were not granted show how the
// time went by.
func TestAWaitIsMadeOfAttempts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		theirs := other
		theirs.Trace = theirTrace
		s.store.Script(script.Acquire, script.Taken(theirs, time.Second),
			script.Taken(theirs, 2*time.Second))
		ctx, request := s.request(t)
		l := s.acquire(ctx, t, "a")
		waitFor(time.Second)
		require.NoError(t, l.Release(l.Context()))
		request.End()

		hold, attempts := s.the(t, "lockbeat.hold"), s.named("lockbeat.attempt")
		require.Len(t, attempts, 2)
		asked := s.store.Calls(script.Acquire)
		require.Len(t, asked, 3)
		for i, span := range append(attempts, hold) {
			require.Equal(t, asked[i].Claims[0].Holder.Trace, traceparent(span.SpanContext()))
			require.Equal(t, asked[i].At, span.StartTime())
			require.Equal(t, request.SpanContext(), span.Parent())
		}
		require.Equal(t, asked[1].At, attempts[0].EndTime())
		require.Equal(t, asked[2].At, attempts[1].EndTime())
		require.Greater(t, asked[2].At, asked[0].At)
		acquire := s.the(t, "lockbeat.acquire")
		require.Equal(t, "granted", attrs(acquire.Attributes())["lockbeat.outcome"])
		require.Equal(t, "web-2", attrs(acquire.Attributes())["lockbeat.holder.host"],
			"whom it waited for")
		require.Len(t, acquire.Links(), 1)
	})
}

// An acquire that stands by for days makes a bounded number of spans. Then the link leads to it.
func TestALongWaitHasAnEndOfAttempts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		for range mostAttempts + 10 {
			s.store.Script(script.Acquire, script.Taken(other, time.Second))
		}
		s.store.Script(script.Acquire, script.Pass().Late(time.Second))
		ctx, request := s.request(t)
		l := s.acquire(ctx, t, "a")
		require.NoError(t, l.Release(l.Context()))
		request.End()
		require.Len(t, s.named("lockbeat.attempt"), mostAttempts)
		calls := s.store.Calls(script.Acquire)
		acquire, hold := s.the(t, "lockbeat.acquire"), s.the(t, "lockbeat.hold")
		require.Equal(t, traceparent(acquire.SpanContext()),
			calls[mostAttempts].Claims[0].Holder.Trace)
		require.Equal(t, traceparent(acquire.SpanContext()),
			calls[len(calls)-1].Claims[0].Holder.Trace)
		require.Equal(t, request.SpanContext(), hold.Parent())
		require.Equal(t, calls[len(calls)-1].At, hold.StartTime())
	})
}

// A waiter in this process is linked to the holder before it.
func TestWaitersOfOneProcessAreLinked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		first := s.acquire(t.Context(), t, "a", renewer.Request{Operation: "transfer"})
		_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		waitFor(time.Second)
		done := make(chan error, 1)
		go func() {
			l, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a"})
			if err == nil {
				err = l.Release(l.Context())
			}
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, first.Release(first.Context()))
		require.NoError(t, <-done)
		// the next waiter may be done before the engine reports the first one's release
		synctest.Wait()
		acquires, holds := s.named("lockbeat.acquire"), s.named("lockbeat.hold")
		require.Len(t, holds, 2)
		hold := holds[0]
		if attrs(hold.Attributes())["lockbeat.operation"] != "transfer" {
			hold = holds[1]
		}
		require.Len(t, acquires, 3)
		for i, want := range []struct {
			outcome string
			heldFor float64
		}{{"held", 0}, {"granted", 1}} {
			acquire := acquires[i+1]
			require.Len(t, acquire.Links(), 1)
			require.Equal(t, traceparent(hold.SpanContext()),
				traceparent(acquire.Links()[0].SpanContext))
			require.Equal(t, want.outcome, attrs(acquire.Attributes())["lockbeat.outcome"])
			heldFor := attrs(acquire.Attributes())["lockbeat.holder.held_for"]
			require.Equal(t, want.heldFor, heldFor) //nolint:testifylint // exactly this
			require.Equal(t, "here", attrs(acquire.Attributes())["lockbeat.holder.host"])
			require.Equal(t, "transfer", attrs(acquire.Attributes())["lockbeat.holder.operation"])
		}
	})
}

// Each outcome has its name; only a store that can't be asked is an error.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	both := func(a, b error) error { return fmt.Errorf("%w: %w", a, b) }
	for name, c := range map[string]struct {
		err                error
		outcome, errorType string
		limited            bool
		expects            bool // it to be held
		refused            bool // and met that
	}{
		"held": {err: renewer.ErrBusy, outcome: "held", refused: true},
		"full": {err: both(renewer.ErrBusy, renewer.ErrQueueFull), outcome: "queue_full", refused: true},
		"closed": {
			err: both(renewer.ErrBusy, renewer.ErrLimitClosed), outcome: "closed", limited: true,
			expects: true, refused: true,
		},
		"replaced":  {err: both(renewer.ErrBusy, renewer.ErrReplaced), outcome: "replaced"},
		"cancelled": {err: both(context.Canceled, renewer.ErrBusy), outcome: "cancelled"},
		"deadline": {
			err: both(context.DeadlineExceeded, renewer.ErrBusy), outcome: "deadline", refused: true,
		},
		"deadline in an outage": {err: context.DeadlineExceeded, outcome: "deadline"},
		"lost": {
			err: both(context.Canceled, &renewer.LostError{Name: "outer"}), outcome: "outer_lost",
		},
		"shutdown": {err: renewer.ErrShutdown, outcome: "shutdown"},
		"expected": {err: renewer.ErrBusy, expects: true, outcome: "expected"},
		"down":     {err: both(renewer.ErrUnavailable, errDown), outcome: "unavailable", errorType: "_OTHER"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeen()
			o := tracing.New(s.to...)
			start := renewer.AcquireStart{Name: "a", RefusalExpected: c.expects}
			o.AcquireEnd(o.AcquireStart(t.Context(), start),
				renewer.AcquireEnd{AcquireStart: start, Err: c.err})
			span := s.the(t, "lockbeat.acquire")
			got := attrs(span.Attributes())
			require.Equal(t, c.outcome, got["lockbeat.outcome"])
			require.NotContains(t, got, "error.message", "it may have the name in it")
			require.Equal(t, c.errorType != "", span.Status().Code == codes.Error)
			if c.errorType == "" {
				require.NotContains(t, got, "error.type")
			} else {
				require.Equal(t, c.errorType, got["error.type"])
			}
			series := map[string]any{"lockbeat.outcome": c.outcome}
			if c.limited {
				series["lockbeat.limited"] = true
			}
			count, _ := s.durations(t, "lockbeat.acquire.duration", series)
			require.Equal(t, uint64(1), count)
			refused := int64(0)
			for _, p := range points[int64](t, s, "lockbeat.refusals") {
				refused += p.Value
			}
			require.Equal(t, c.refused, refused == 1)
			require.Equal(t, c.refused, s.sum(t, "lockbeat.refusals", series) == 1)
		})
	}
}

// Who waits only for the end of another's work is in no metric and no span, nor is it taken for the
// lock around it.
func TestStandingByIsNotSeen(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		charge := "charge"
		outer := s.acquire(t.Context(), t, "outer", renewer.Request{Operation: charge})
		inner := s.acquire(outer.Context(), t, "a", renewer.Request{
			Operation: charge, StandBy: true,
		})
		require.Empty(t, s.named("lockbeat.acquire")[1:])
		of := map[string]any{"lockbeat.operation": "charge"}
		require.Equal(t, int64(1), s.sum(t, "lockbeat.held", of))
		require.Zero(t, s.sum(t, "lockbeat.waiting", of))
		s.store.Delete("a")
		<-inner.Context().Done()
		require.Error(t, inner.Release(t.Context()))
		require.Equal(t, int64(1), s.sum(t, "lockbeat.held", of))
		require.NoError(t, outer.Release(t.Context()))
		require.Len(t, s.named("lockbeat.hold"), 1)
	})
}

// The engine's own time limit for a question is no deadline of the caller's.
func TestAStoreThatDoesNotAnswerIsATimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Acquire, script.Fail(context.DeadlineExceeded))
		_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		got := attrs(s.the(t, "lockbeat.acquire").Attributes())
		require.Equal(t, "unavailable", got["lockbeat.outcome"])
		require.Equal(t, "timeout", got["error.type"])
	})
}
