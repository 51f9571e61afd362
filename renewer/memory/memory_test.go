package memory_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(6)
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Fixture {
		return storetest.Fixture{Store: memory.New().Engine(), Reserves: true}
	})
}

func TestZeroStoreInBubble(t *testing.T) {
	t.Parallel()
	storetest.RunInBubble(t, func(*testing.T) storetest.Fixture {
		return storetest.Fixture{Store: new(memory.Store).Engine(), Reserves: true}
	})
}

func claim(name, owner string, ttl time.Duration) []store.Claim {
	return []store.Claim{{Name: name, Owner: owner, TTL: ttl}}
}

func TestLapsesAtTheInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		s.Acquire(t.Context(), claim("n", "a", time.Second))
		<-time.After(time.Second - 1)
		got := s.Acquire(t.Context(), claim("n", "b", time.Second))[0]
		assert.Equal(t, store.Grant{
			Status: store.StatusTaken, HeldFor: time.Second - 1,
			TTL: 1,
		}, got)
		<-time.After(1)
		assert.Equal(t, store.StatusHeld,
			s.Acquire(t.Context(), claim("n", "b", time.Second))[0].Status)
	})
}

func TestFenceIsTheTimeOrOneMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		now := time.Now().UnixMicro()
		assert.Equal(t, now, s.Acquire(t.Context(), claim("1", "a", time.Second))[0].Fence)
		assert.Equal(t, now+1, s.Acquire(t.Context(), claim("2", "a", time.Second))[0].Fence)
		<-time.After(time.Minute)
		assert.Equal(t, now+60_000_000,
			s.Acquire(t.Context(), claim("1", "b", time.Second))[0].Fence)
	})
}

func TestLapsedNamesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		var last int64
		for i := range 100 {
			for j := range 100 {
				fence := s.Acquire(t.Context(),
					claim(fmt.Sprint(i, "/", j), "a", time.Second))[0].Fence
				require.Greater(t, fence, last, "what is forgotten takes no token with it")
				last = fence
			}
			<-time.After(time.Second)
			require.LessOrEqual(t, memory.Kept(s), 201, "at most twice the 100 held")
		}
	})
}

func TestLapsedNamesAreRemovedWhenTheirNumberHasDoubled(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]func(*memory.Engine) int{
		"leases":          memory.Kept,
		"tokens proposed": memory.Proposed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := new(memory.Engine)
				take := func(from, to int, ttl time.Duration) {
					for i := from; i < to; i++ {
						p := contract.Proposal{Claim: claim(fmt.Sprint(i), "a", ttl)[0]}
						p.Fence = int64(i + 1)
						grants := s.Propose(t.Context(), []contract.Proposal{p})
						require.Equal(t, store.StatusHeld, grants[0].Status)
					}
				}
				take(0, 100, time.Second) // a look at the first 64 finds none
				<-time.After(time.Second)
				take(100, 128, time.Minute)
				require.Equal(t, 128, kept(s),
					"not at each: that would cost as much as there are names")
				take(128, 129, time.Minute)
				require.Equal(t, 29, kept(s))
			})
		})
	}
}

func TestReleaseAndStopLeaveNothing(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	for i := range 100 {
		name := fmt.Sprint(i)
		stop := s.Watch(name, false, func(error) {})
		s.Watch(name, false, func(error) {})()
		s.Acquire(t.Context(), claim(name, "a", time.Minute))
		s.Release(t.Context(), []store.Hold{{Name: name, Owner: "a"}})
		stop()
		stop()
	}
	assert.Zero(t, memory.Kept(s))
	assert.Zero(t, memory.Watched(s))
}

func TestShortTTLIsRefused(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	for _, ttl := range []time.Duration{-1, 0, 500 * time.Microsecond} {
		got := s.Acquire(t.Context(), claim("n", "a", ttl))[0]
		assert.Equal(t, store.StatusUnknown, got.Status)
		require.ErrorIs(t, got.Err, renewer.ErrConfig)
	}
	s.Acquire(t.Context(), claim("n", "a", time.Minute))
	got := s.Renew(t.Context(), []store.Hold{{Name: "n", Owner: "a"}})[0]
	require.ErrorIs(t, got.Err, renewer.ErrConfig)
}

func TestWakeMayAskTheStore(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	got := make(chan store.Grant, 2)
	defer s.Watch("n", false, func(error) {
		got <- s.Acquire(context.Background(), claim("n", "b", time.Minute))[0]
	})()
	assert.Equal(t, store.StatusHeld, (<-got).Status, "on set-up")
	s.Release(t.Context(), []store.Hold{{Name: "n", Owner: "b"}})
	assert.Equal(t, store.StatusHeld, (<-got).Status, "on release")
}

func TestWatchMayBeCalledUnderALockThatWakeNeeds(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	var mu sync.Mutex
	woken := make(chan struct{})
	mu.Lock()
	stop := s.Watch("n", false, func(error) {
		mu.Lock()
		defer mu.Unlock()
		close(woken)
	})
	defer stop()
	mu.Unlock()
	<-woken
}
