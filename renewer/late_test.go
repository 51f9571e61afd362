package renewer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Answers that take longer than RequestTimeout, as all do in a process without
// processor time to spare, keep a lease all the same: a heartbeat is sent again
// beside the first, and not in place of it.
func TestALeaseLivesOnAnswersThatAreLate(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second // three attempts of 0.55 s, or one of 1.6 s
	inBubble(t, renewer.Config{TTL: ttl}, func(
		t *testing.T, s *script.Store, k *renewer.Keeper,
	) {
		l := acquire(t, k, "a")
		waitFor(ttl)
		before := len(s.Calls(script.Renew))
		for range 10_000 {
			s.Script(script.Renew, script.Pass().Late(600*time.Millisecond+
				rand.N(900*time.Millisecond)))
		}
		minutes := suite.Size(10, 60)
		waitFor(time.Duration(minutes) * time.Minute)
		require.NoError(t, l.Err())
		beats := len(s.Calls(script.Renew)) - before
		assert.Less(t, beats, minutes*60*3, "each is sent three times at most, on average")
		require.NoError(t, l.Release(t.Context()))
	})
}

// What a late answer says counts from when its own question was sent, and "not
// yours" at once.
func TestALateAnswerCounts(t *testing.T) {
	t.Parallel()
	const late = 5 * time.Second // more than RequestTimeout twice
	for name, tt := range map[string]struct {
		first  script.Step
		reason renewer.Reason
		want   time.Duration // after the first heartbeat was sent
	}{
		"held":  {script.Held().Late(late), renewer.ReasonExpired, goodFor},
		"taken": {script.Taken(store.Holder{}, time.Second).Late(late), renewer.ReasonTaken, late},
		"gone":  {script.Gone().Late(late), renewer.ReasonTaken, late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				l := acquire(t, k, "a")
				s.Script(script.Renew, tt.first)
				s.Default(script.Renew, script.Hang())
				at, lost := lostAt(t, l)
				assert.Equal(t, tt.reason, lost.Reason)
				assertInstant(t, s.Calls(script.Renew)[0].At.Add(tt.want), at, "end of the context")
				require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
			})
		})
	}
}

// A heartbeat that is late is heard of when it is, once; and it is no loss of
// rhythm: when it is confirmed the next one comes as if it had been in time.
func TestALateHeartbeatIsToldOnce(t *testing.T) {
	t.Parallel()
	told := new(renewals)
	cfg := config
	cfg.Observer = told
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Script(script.Renew, script.Hang())
		waitFor(11 * time.Second) // the first has been given up, and others were confirmed
		require.NoError(t, l.Release(t.Context()))
		calls := s.Calls(script.Renew)
		require.Greater(t, len(calls), 2)
		pause := calls[1].At.Sub(calls[0].At)
		assert.Greater(t, pause, config.RequestTimeout)
		assert.LessOrEqual(t, pause, config.RequestTimeout*9/8+5*time.Millisecond)
		told.mu.Lock()
		defer told.mu.Unlock()
		require.Len(t, told.missed, 2, "the first, and the second, since it was sent too late")
		require.ErrorContains(t, told.missed[0].Err, "has not answered within Config.RequestTimeout")
		assert.Zero(t, told.missed[0].Lag)
		require.NoError(t, told.missed[1].Err)
		failed := 0
		for _, r := range told.renewed {
			failed += r.Failed
		}
		assert.Equal(t, 1, failed)
		require.Len(t, told.renewed, len(calls))
	})
}

// renewals notes what it hears of heartbeats.
type renewals struct {
	renewer.NopObserver

	mu      sync.Mutex
	missed  []renewer.Missed
	renewed []renewer.Renewed
}

func (r *renewals) Missed(_ context.Context, e renewer.Missed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed = append(r.missed, e)
}

func (r *renewals) Renewed(_ context.Context, e renewer.Renewed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renewed = append(r.renewed, e)
}

// When the answer to a heartbeat that was sent again is an error in the end,
// nothing is made of it: the one that was sent since is what counts.
func TestALateErrorMeansNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		s.Script(script.Renew, script.Fail(errors.New("late")).Late(3*time.Second), script.Pass())
		waitFor(8 * time.Second)
		require.True(t, l.Valid())
		calls := s.Calls(script.Renew)
		require.Len(t, calls, 3, "the first, the one beside it, and the next")
		assert.GreaterOrEqual(t, calls[2].At.Sub(calls[1].At), config.Heartbeat/2)
		require.NoError(t, l.Release(t.Context()))
	})
}
