package renewer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Each question tells of the work that would be done by its grant; but while an
// earlier one may still be granted, it is that one's trace that others may
// read, and so the claim keeps to it.
func TestEachQuestionTellsItsTrace(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		theirs := other
		theirs.Trace = "their trace"
		s.Script(script.Acquire, script.Taken(theirs, time.Second), script.Pass().Lost(),
			script.Fail(errDown))
		l := acquire(t, k, "a", renewer.Request{Operation: "transfer"})
		var traces []string
		for _, c := range s.Calls(script.Acquire) {
			traces = append(traces, c.Claims[0].Holder.Trace)
		}
		require.Equal(t, []string{"trace a 1", "trace a 2", "trace a 2", "trace a 2"}, traces)
		require.Equal(t, "their trace", heard[renewer.AcquireEnd](r)[0].Holder.Trace)

		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		var held *renewer.Error
		require.ErrorAs(t, err, &held)
		require.Equal(t, "trace a 2", held.Holder.Trace,
			"who is refused in this process learns it as well")
		require.NotContains(t, err.Error(), "trace", "it is not for people")
		require.NoError(t, l.Release(t.Context()))
	})
}

// A heartbeat tells whose leases it carries.
func TestAHeartbeatTellsItsLeases(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		a := acquire(t, k, "a")
		waitFor(config.Heartbeat)
		require.NoError(t, a.Release(t.Context()))
		starts := heard[renewStart](r)
		require.NotEmpty(t, starts)
		require.Equal(t, renewStart{leases: 1, names: []any{"a"}}, starts[0])
		require.Len(t, heard[renewer.Renewed](r), len(starts))
		require.Equal(t, len(starts), s.Calls(script.Renew)[0].Context.Value(renewKey{}),
			"the question has the observer's context")
	})
}

// A lease hears of each heartbeat that failed, and of one that came
// so late that another might have been sent before.
func TestALeaseHearsOfItsMissedHeartbeats(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Script(script.Renew, script.Pass(), script.Hang(), script.Fail(errDown))
		l := acquire(t, k, "a", renewer.Request{Operation: "transfer"})
		begun := time.Now()
		for len(heard[renewer.Missed](r)) < 3 {
			waitFor(time.Millisecond)
			require.Less(t, time.Since(begun), time.Minute)
		}
		missed := heard[renewer.Missed](r)
		for _, m := range missed {
			require.Equal(t, []any{"a", "transfer", l.Fence()}, []any{m.Name, m.Operation, m.Fence})
			require.Positive(t, m.Left)
		}
		require.Error(t, missed[0].Err)
		require.Zero(t, missed[0].Lag)
		require.ErrorIs(t, missed[1].Err, errDown)
		require.Greater(t, missed[1].Lag, config.RequestTimeout)
		require.NoError(t, missed[2].Err, "late, but confirmed")
		require.Greater(t, missed[2].Lag, missed[1].Lag)
		require.Greater(t, missed[2].Left, missed[1].Left)
		waitFor(time.Minute)
		require.Len(t, heard[renewer.Missed](r), 3, "no more once it is in time again")
		require.NoError(t, l.Release(t.Context()))
	})
}

// What the engine asks on nobody's behalf has the observer's context.
func TestACleanUpHasTheObserversContext(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Script(script.Acquire, script.Pass().Lost())
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		synctest.Wait()
		calls := s.Calls(script.Release)
		require.NotEmpty(t, calls)
		require.Len(t, heard[cleanUp](r), len(calls))
		require.Equal(t, true, calls[0].Context.Value(cleanKey{}))
	})
}
