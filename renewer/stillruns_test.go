package renewer_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lock that is held for long is told of after the default, twice that and
// four times, at these instants, also beside many others, and not once it is
// free. A leader's is not.
func TestALockHeldForLongIsToldOf(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		lead := acquire(t, k, "leader", renewer.Request{LongRunning: true})
		l := acquire(t, k, "order:42", renewer.Request{Operation: "charge"})
		leave := waitsFor(t, k, "order:42")
		waitFor(5*time.Minute - rounding)
		require.Empty(t, heard[renewer.StillRuns](r))
		waitFor(2 * rounding)
		require.Len(t, heard[renewer.StillRuns](r), 1)
		leave()
		late := acquire(t, k, "late")
		waitFor(16 * time.Minute)
		told := heard[renewer.StillRuns](r)
		require.Len(t, told, 5)
		for i, want := range []struct {
			name string
			held time.Duration
		}{
			{"order:42", 5 * time.Minute},
			{"order:42", 10 * time.Minute},
			{"late", 5 * time.Minute},
			{"late", 10 * time.Minute},
			{"order:42", 20 * time.Minute},
		} {
			assert.Equal(t, want.name, told[i].Name)
			assert.InDelta(t, want.held, told[i].Held, float64(rounding))
			told[i].Held = 0
		}
		assert.Equal(t, renewer.StillRuns{
			Name: "order:42", Operation: "charge", Fence: l.Fence(), Waiting: 1,
		}, told[0])
		assert.Zero(t, told[1].Waiting)
		for _, one := range []*renewer.Lease{l, lead, late} {
			require.NoError(t, one.Release(t.Context()))
		}
		waitFor(time.Hour)
		require.Len(t, heard[renewer.StillRuns](r), 5)
	})
}

func TestNoHoldWarning(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.HoldWarning = -1
	inObserved(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		l := acquire(t, k, "a")
		waitFor(time.Hour)
		require.NoError(t, l.Release(t.Context()))
		require.Empty(t, heard[renewer.StillRuns](r))
	})
}

// An operation that runs on is told of when others can have its lock, rather
// than when it has returned, and again as one that holds it for long is: a
// leader too, and of it that once.
func TestAnOverrunIsToldOfWhenItBegins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose  func(s *script.Store)
		long  bool
		after time.Duration // of the loss
		told  int
	}{
		"expired": {
			lose:  func(s *script.Store) { s.Default(script.Renew, script.Fail(errDown)) },
			after: config.Margin, told: 2,
		},
		"taken": {
			lose:  func(s *script.Store) { s.Script(script.Renew, script.Gone()) },
			after: 10 * time.Millisecond, told: 2,
		},
		"a leader": {
			lose: func(s *script.Store) { s.Script(script.Renew, script.Gone()) },
			long: true, after: 10 * time.Millisecond, told: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
				c.lose(s)
				l := acquire(t, k, "a", renewer.Request{LongRunning: c.long})
				_, lost := lostAt(t, l)
				waitFor(c.after - rounding)
				require.Empty(t, heard[renewer.StillRuns](r))
				waitFor(2 * rounding)
				told := heard[renewer.StillRuns](r)
				require.Len(t, told, 1)
				assert.Equal(t, lost, told[0].Lost)
				assert.InDelta(t, c.after, told[0].Overrun, float64(rounding))
				assert.Equal(t, heard[renewer.Lost](r)[0].Held, told[0].Held)
				waitFor(5 * time.Minute)
				require.Len(t, heard[renewer.StillRuns](r), c.told)
				require.Error(t, l.Release(t.Context()))
			})
		})
	}
}

// One that stops in time runs on in no way.
func TestAnOperationThatStopsInTimeDoesNotOverrun(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Default(script.Renew, script.Fail(errDown))
		l := acquire(t, k, "a")
		<-l.Context().Done()
		waitFor(config.Margin / 2)
		require.Error(t, l.Release(t.Context()))
		waitFor(time.Hour)
		require.Empty(t, heard[renewer.StillRuns](r))
	})
}

func TestALockHeldForLongIsLogged(t *testing.T) {
	t.Parallel()
	inLogged(t, slog.LevelInfo, func(t *testing.T, s *script.Store, k *renewer.Keeper, b *logbook) {
		l := acquire(t, k, "account:42", renewer.Request{Operation: "transfer"})
		defer waitsFor(t, k, "account:42")()
		waitFor(5 * time.Minute)
		s.Delete("account:42")
		<-l.Context().Done()
		waitFor(time.Second)
		require.Error(t, l.Release(t.Context()))
		still := b.lines(t, "lock is still held")
		require.Len(t, still, 1, b.String())
		assert.Equal(t, "WARN", still[0]["level"])
		assert.Equal(t, hashOfAccount, still[0]["lock_hash"])
		assert.Equal(t, "transfer", still[0]["operation"])
		assert.InDelta(t, float64(5*time.Minute), still[0]["held"], float64(rounding))
		assert.InDelta(t, 1, still[0]["waiting"], 0)
		over := b.lines(t, "operation runs on when others can have the lock")
		require.Len(t, over, 1, b.String())
		assert.Equal(t, "WARN", over[0]["level"])
		assert.Equal(t, "taken", over[0]["reason"])
		assert.InDelta(t, float64(10*time.Millisecond), over[0]["overrun"], float64(rounding))
		require.Len(t, b.lines(t, "operation ran on when others could have the lock"), 1)
	})
}
