package tracing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// slots are those of limits, in a store of their own.
type slots struct {
	t     *testing.T
	store *memory.Store
	k     *renewer.Keeper
}

// slotsOf has a scene's observer see what becomes of limits.
func slotsOf(t *testing.T, s *scene) slots {
	t.Helper()
	in := memory.New()
	return slots{t: t, store: in, k: newKeeper(t, in, s.Observer)}
}

// fill has another process hold n slots of the limit "a".
func (s slots) fill(n int) slots {
	s.t.Helper()
	holder := other
	holder.Trace = theirTrace
	for i := range n {
		grant := s.store.Engine().Acquire(s.t.Context(), []store.Claim{{
			Name: "a", Owner: strings.Repeat(string(rune('a'+i)), store.OwnerLen),
			TTL: time.Hour, Holder: holder, Limit: n,
		}})[0]
		require.Equal(s.t, store.StatusHeld, grant.Status)
	}
	return s
}

func atMost(n int) func() int { return func() int { return n } }

// Spans of a limit say how many may have a slot, and how many had one when it was full: more, if
// another process admits more.
func TestALimitOnSpans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		k := slotsOf(t, s).fill(3).k
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: atMost(2), Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		acquire := s.the(t, "lockbeat.acquire")
		require.Len(t, acquire.Links(), 1)
		require.Equal(t, theirTrace, traceparent(acquire.Links()[0].SpanContext), "one of three")
		refused := attrs(acquire.Attributes())
		require.EqualValues(t, 2, refused["lockbeat.limit"])
		require.EqualValues(t, 3, refused["lockbeat.limit_held"])
		require.Equal(t, "held", refused["lockbeat.outcome"])
		require.Equal(t, "refund", refused["lockbeat.holder.operation"])

		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: atMost(4)})
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		hold := attrs(s.the(t, "lockbeat.hold").Attributes())
		require.EqualValues(t, 4, hold["lockbeat.limit"])
		require.NotContains(t, hold, "lockbeat.limit_held", "it was not full")
		require.Equal(t, renewer.HashName("a", nil), hold["lockbeat.key_hash"])
	})
}

// A wait goes by the latest number, and so does what is shown of it.
func TestALimitThatIsRaisedOnSpans(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		begun := time.Now()
		later := func() int {
			if time.Since(begun) > time.Second {
				return 4
			}
			return 3
		}
		k := slotsOf(t, s).fill(3).k
		l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: later})
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		for _, name := range []string{"lockbeat.acquire", "lockbeat.hold"} {
			got := attrs(s.the(t, name).Attributes())
			require.EqualValues(t, 4, got["lockbeat.limit"], name)
			require.EqualValues(t, 3, got["lockbeat.limit_held"], name)
		}
	})
}

// A closed limit is not full but closed: on spans, and in metrics, where it counts among limits.
func TestAClosedLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		_, err := slotsOf(t, s).k.Acquire(t.Context(), renewer.Request{
			Name: "a", Limit: atMost(0), Operation: "charge",
		})
		require.ErrorIs(t, err, renewer.ErrLimitClosed)
		got := attrs(s.the(t, "lockbeat.acquire").Attributes())
		require.Equal(t, "closed", got["lockbeat.outcome"])
		require.EqualValues(t, 0, got["lockbeat.limit"])
		require.Equal(t, int64(1), s.sum(t, "lockbeat.at_limit",
			map[string]any{"lockbeat.operation": "charge", "lockbeat.outcome": "closed"}))
	})
}

// Slots of limits are counted apart from locks of the same operation and name, and so is each call
// that found its limit full.
func TestSlotsHeldWaitingAndAtLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		charge := "charge"
		locks := map[string]any{"lockbeat.operation": "charge"}
		limits := map[string]any{"lockbeat.operation": "charge", "lockbeat.limited": true}
		at := func(outcome string) int64 {
			return s.sum(t, "lockbeat.at_limit",
				map[string]any{"lockbeat.operation": "charge", "lockbeat.outcome": outcome})
		}
		k := slotsOf(t, s).k
		lock := s.acquire(t.Context(), t, "a", renewer.Request{Operation: charge})
		var held []*renewer.Lease
		for range 2 {
			l, err := k.Acquire(t.Context(), renewer.Request{
				Name: "a", Operation: charge, Limit: atMost(2),
			})
			require.NoError(t, err)
			held = append(held, l)
		}
		require.Empty(t, s.metrics(t)["lockbeat.at_limit"].Data, "none found it full")
		done := make(chan error, 3)
		for range 3 { // one of them asks, two are in line behind it
			go func() {
				l, err := k.Acquire(t.Context(), renewer.Request{
					Name: "a", Operation: charge, Limit: atMost(2), MaxWait: time.Minute,
				})
				if err == nil {
					err = l.Release(t.Context())
				}
				done <- err
			}()
		}
		waitFor(time.Second)
		require.Equal(t, int64(1), s.sum(t, "lockbeat.held", locks))
		require.Zero(t, s.sum(t, "lockbeat.waiting", locks))
		require.Equal(t, int64(2), s.sum(t, "lockbeat.held", limits))
		require.Equal(t, int64(3), s.sum(t, "lockbeat.waiting", limits))
		_, err := k.Acquire(t.Context(), renewer.Request{
			Name: "a", Operation: charge, Limit: atMost(2), Try: true,
		})
		require.ErrorIs(t, err, renewer.ErrBusy)
		var refused *renewer.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, [2]int{2, 2}, [2]int{refused.Limit, refused.Held},
			"refused by what the one in front has heard")
		for _, l := range append(held, lock) {
			require.NoError(t, l.Release(t.Context()))
		}
		for range 3 {
			require.NoError(t, <-done)
		}
		require.Equal(t, int64(3), at("granted"))
		require.Equal(t, int64(1), at("held"))
		require.Zero(t, s.sum(t, "lockbeat.held", limits))
		_, seconds := s.durations(t, "lockbeat.hold.duration", map[string]any{
			"lockbeat.operation": "charge", "lockbeat.limited": true, "lockbeat.outcome": "released",
		})
		require.InDelta(t, 2, seconds, 1e-6, "two slots for a second")
	})
}
