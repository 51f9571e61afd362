package renewer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// toldBy are the numbers of callers that heartbeats tell, -1 of one that tells
// none.
func toldBy(calls []script.Call) (told []int) {
	for _, c := range calls {
		if h := c.Holds[0]; h.Tells {
			told = append(told, h.Callers)
		} else {
			told = append(told, -1)
		}
	}
	return told
}

// A heartbeat brings how many callers of the process wait behind the holder,
// when that has changed, and until it is confirmed. One for whom none waits
// never does.
func TestHeartbeatsTellHowManyCallersWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		lease := acquire(t, k, "a")
		beats := func(want ...int) {
			t.Helper()
			before := len(s.Calls(script.Renew))
			for len(s.Calls(script.Renew)) < before+len(want) {
				waitFor(100 * time.Millisecond)
			}
			require.Equal(t, want, toldBy(s.Calls(script.Renew)[before:]))
		}
		beats(-1, -1)
		var callers []*caller
		for range 19 {
			callers = append(callers, startAcquire(t, s, k))
		}
		s.Script(script.Renew, script.Fail(errDown), script.Pass().Broken(errDown))
		beats(19, 19, 19, -1, -1)
		callers[3].leave()
		<-callers[3].got
		beats(18, -1)
		for i, c := range callers {
			if i != 3 && i != 0 {
				c.leave()
				<-c.got
			}
		}
		beats(1, -1)
		callers[0].leave()
		<-callers[0].got
		beats(0, -1)
		require.NoError(t, lease.Release(t.Context()))
	})
}

// A claim brings it, too: those who hold the lock for less than the time to a
// heartbeat are shown with those who wait for it. A hand-over leaves it to the
// next heartbeat.
func TestClaimsTellHowManyCallersWait(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 5)
		claims := func() (told []int) {
			for _, c := range s.Calls(script.Acquire) {
				told = append(told, c.Claims[0].Callers)
			}
			return told
		}
		require.Equal(t, []int{0, 4}, claims())
		require.True(t, callers[0].free(t, callers[1], nil))
		for len(s.Calls(script.Renew)) < 2 {
			waitFor(100 * time.Millisecond)
		}
		require.Equal(t, []int{3, -1}, toldBy(s.Calls(script.Renew)))
		waitFor(time.Second) // too late for a hand-over
		require.False(t, callers[1].free(t, callers[2], nil))
		require.Equal(t, []int{0, 4, 2}, claims())
		for _, c := range callers[3:] {
			c.leave()
			<-c.got
		}
		for len(s.Calls(script.Renew)) < 4 {
			waitFor(100 * time.Millisecond)
		}
		require.Equal(t, []int{0, -1}, toldBy(s.Calls(script.Renew)[2:]), "though nobody waits")
		require.NoError(t, callers[2].lease.Release(t.Context()))
	})
}

// Who waits for a limit stands in the store's line once a process; only those
// behind are told.
func TestCallersOfALimitAreThoseBehindItsPlace(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		var leases []*renewer.Lease
		two := slots(2)
		for range 2 {
			leases = append(leases, acquire(t, k, "a", renewer.Request{Limit: two}))
		}
		ctx, leave := context.WithCancel(t.Context())
		for range 5 {
			go func() { _, _ = k.Acquire(ctx, renewer.Request{Name: "a", Limit: two}) }()
		}
		synctest.Wait()
		waitFor(config.TTL)
		lock, err := s.Show(t.Context(), "a", true)
		require.NoError(t, err)
		require.Equal(t, 1, lock.Waiting, "the process")
		require.Equal(t, 4, lock.Callers())
		require.Equal(t, 5, lock.WaitingInAll())
		leave()
		synctest.Wait()
		waitFor(config.TTL)
		lock, err = s.Show(t.Context(), "a", true)
		require.NoError(t, err)
		require.Zero(t, lock.WaitingInAll())
		for _, l := range leases {
			require.NoError(t, l.Release(t.Context()))
		}
	})
}
