package renewer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// guardingStore tells of changes when the test says so.
type guardingStore struct {
	*script.Store

	mu      sync.Mutex
	changed func(string)
}

func (s *guardingStore) Guard(_ context.Context, changed func(string)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed = nil
	}
}

func (s *guardingStore) Guards() bool { return true }

// tell says that a name has changed. It tells whether anybody listens.
func (s *guardingStore) tell(name string) bool {
	s.mu.Lock()
	changed := s.changed
	s.mu.Unlock()
	if changed != nil {
		changed(name)
	}
	return changed != nil
}

// inGuarded runs f in a bubble with a store that guards, and a keeper on it.
func inGuarded(t *testing.T, f func(t *testing.T, s *guardingStore, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &guardingStore{Store: script.New()}
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		f(t, s, k)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, k.Shutdown(ctx))
		require.False(t, s.tell("a"), "nobody listens after Shutdown")
	})
}

func TestAChangeIsLookedAtAtOnce(t *testing.T) {
	t.Parallel()
	inGuarded(t, func(t *testing.T, s *guardingStore, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		pass(time.Second)
		s.Script(script.Renew, script.Gone())
		s.tell("b")
		s.tell("a")
		synctest.Wait()
		at, lost := lostAt(t, l)
		assertInstant(t, s.Calls(script.Renew)[1].At, at, "told by the heartbeat that it caused")
		assert.Less(t, time.Since(at), 5*time.Millisecond)
		assert.Equal(t, renewer.Usurped, lost.Reason)
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// A heartbeat that was answered before the change tells nothing of it: another follows.
func TestAChangeDuringAHeartbeatIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	inGuarded(t, func(t *testing.T, s *guardingStore, k *renewer.Keeper) {
		l := acquire(t, k, "a")
		pass(time.Second)
		s.Script(script.Renew, script.Pass().Late(100*time.Millisecond), script.Taken(renewer.Holder{}, time.Minute))
		s.tell("a")
		pass(50 * time.Millisecond)
		s.tell("a")
		pass(100 * time.Millisecond)
		require.Error(t, l.Context().Err())
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
	})
}

// Whoever writes to a key over and over makes no more than a heartbeat every 10 ms or so of it, and takes none away.
func TestManyChangesMakeFewHeartbeats(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", ""} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			t.Parallel()
			inGuarded(t, func(t *testing.T, s *guardingStore, k *renewer.Keeper) {
				l := acquire(t, k, "a")
				pass(time.Second)
				from := len(s.Calls(script.Renew))
				for range 1000 {
					s.tell(name)
					pass(time.Millisecond)
				}
				beats := len(s.Calls(script.Renew)) - from
				assert.LessOrEqual(t, beats, 101)
				assert.Greater(t, beats, 10)
				require.NoError(t, l.Context().Err())
				pass(config.Heartbeat + time.Second)
				require.True(t, l.Valid())
				require.NoError(t, l.Release(t.Context()))
			})
		})
	}
}

// A store that cries wolf is not listened to for a minute.
func TestAStoreThatIsWrongTooOftenIsNotHeard(t *testing.T) {
	t.Parallel()
	inGuarded(t, func(t *testing.T, s *guardingStore, k *renewer.Keeper) {
		const n = 200
		leases := make([]*renewer.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, k, fmt.Sprint(i))
		}
		pass(time.Second)
		for i := range n {
			s.tell(fmt.Sprint(i)) // more than 100 + n/100 in an interval, and all of them are ours still
		}
		pass(time.Second)
		assert.False(t, s.tell("0"), "nobody listens")
		late := acquire(t, k, "late")
		from := len(s.Calls(script.Renew))
		pass(config.Heartbeat / 4)
		for _, c := range s.Calls(script.Renew)[from:] {
			for _, h := range c.Holds {
				assert.NotEqual(t, "late", h.Name, "no first look at what is not guarded")
			}
		}
		pass(time.Minute + config.Heartbeat)
		assert.True(t, s.tell("0"), "until the first heartbeat a minute later")
		require.NoError(t, late.Release(t.Context()))
		for _, l := range leases {
			require.NoError(t, l.Context().Err())
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// What is renewed is guarded, so a lease is renewed once soon after it was taken; then once an interval, at a point of its own.
func TestTheFirstLookComesSoon(t *testing.T) {
	t.Parallel()
	inGuarded(t, func(t *testing.T, s *guardingStore, k *renewer.Keeper) {
		const n = 50
		start := time.Now()
		leases := make([]*renewer.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, k, fmt.Sprint(i))
		}
		pass(25 * time.Millisecond)
		looked := 0
		for _, c := range s.Calls(script.Renew) {
			looked += len(c.Holds)
			assert.GreaterOrEqual(t, c.At.Sub(start), 20*time.Millisecond, "what is over by then costs none")
		}
		assert.Equal(t, n, looked)
		from := len(s.Calls(script.Renew))
		pass(10 * config.Heartbeat)
		calls, renewals := s.Calls(script.Renew)[from:], 0
		for _, c := range calls {
			renewals += len(c.Holds)
			assert.Less(t, len(c.Holds), n, "they do not beat together for ever")
		}
		assert.InDelta(t, 10*n, renewals, n/2)
		for _, l := range leases {
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// A lease that its operation extends itself has no heartbeat to be sent early.
func TestManualLeasesAreNotAlarmed(t *testing.T) {
	t.Parallel()
	inGuarded(t, func(t *testing.T, s *guardingStore, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Manual(config.TTL))
		s.tell("a")
		s.tell("")
		pass(time.Second)
		assert.Empty(t, s.Calls(script.Renew))
		require.NoError(t, l.Release(t.Context()))
	})
}
