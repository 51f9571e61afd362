package renewer_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// caller is a caller in a line.
type caller struct {
	s     *script.Store
	lease *renewer.Lease
	err   error
	got   chan struct{} // closed when Acquire has returned
	leave context.CancelFunc
}

// line has n callers stand in line for a name: the first has got it
// from the store, which it asked when all were there.
func line(
	t *testing.T, s *script.Store, k *renewer.Keeper, n int, more ...renewer.Request,
) []*caller {
	t.Helper()
	before := acquire(t, k, "a")
	callers := make([]*caller, n)
	for i := range callers {
		callers[i] = startAcquire(t, s, k, more...)
	}
	require.NoError(t, before.Release(t.Context()))
	<-callers[0].got
	require.NoError(t, callers[0].err)
	return callers
}

func startAcquire(t *testing.T, s *script.Store, k *renewer.Keeper, more ...renewer.Request) *caller {
	t.Helper()
	c := &caller{s: s, got: make(chan struct{})}
	ctx, leave := context.WithCancel(t.Context())
	c.leave = leave
	go func() {
		c.lease, c.err = k.Acquire(ctx, named("a", more))
		close(c.got)
	}()
	synctest.Wait()
	return c
}

// free releases a caller's lease, and says whether the next has been handed it
// by then.
func (c *caller) free(t *testing.T, next *caller, free func(context.Context) error) (handed bool) {
	t.Helper()
	if free == nil {
		free = c.lease.Release
	}
	waitFor(aToken)
	asked := len(c.s.Calls(script.Acquire))
	require.NoError(t, free(t.Context()))
	<-next.got
	require.NoError(t, next.err)
	handed = len(c.s.Calls(script.Acquire)) == asked
	require.True(t, next.lease.Fence() == c.lease.Fence()+1 || !handed &&
		next.lease.Fence() > c.lease.Fence())
	return handed
}

func TestHandedOver(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 5)
		waitFor(5 * time.Millisecond)
		owner, granted := s.Owner("a"), time.Now().Add(-5*time.Millisecond)
		for i, c := range callers[1:] {
			before := callers[i].lease
			require.True(t, callers[i].free(t, c, nil))
			require.ErrorIs(t, before.Context().Err(), context.Canceled)
			require.NotErrorIs(t, context.Cause(before.Context()), renewer.ErrLost)
			require.False(t, before.Valid())
			require.NoError(t, before.Err())
			require.NoError(t, before.Release(t.Context()), "a second time")
			require.True(t, c.lease.Valid())
			require.NoError(t, c.lease.Context().Err())
			assertInstant(t, granted.Add(goodFor), time.Now().Add(c.lease.Remaining()),
				"as long as it was good before")
		}
		require.Equal(t, owner, s.Owner("a"))
		require.Len(t, s.Calls(script.Acquire), 2)
		require.Len(t, s.Calls(script.Release), 1)
		require.NoError(t, callers[4].lease.Release(t.Context()))
		require.Empty(t, s.Owner("a"))
		require.Len(t, s.Calls(script.Release), 2)
	})
}

// The heartbeat goes on for the holder of the lease, who is told of a loss.
func TestHeartbeatOverHandOffs(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 3)
		require.True(t, callers[0].free(t, callers[1], nil))
		require.True(t, callers[1].free(t, callers[2], nil))
		waitFor(time.Hour)
		require.True(t, callers[2].lease.Valid())
		require.InDelta(t, 1200, len(s.Calls(script.Renew)), 2, "one per interval")
		s.Delete("a")
		_, lost := lostAt(t, callers[2].lease)
		require.Equal(t, renewer.ReasonTaken, lost.Reason)
		require.Equal(t, callers[2].lease.Fence(), lost.Fence)
		require.NoError(t, callers[0].lease.Err(), "theirs was over")
		require.ErrorIs(t, callers[2].lease.Release(t.Context()), renewer.ErrLost)
	})
}

func TestNotHandedOver(t *testing.T) {
	t.Parallel()
	bounded := func(edit func(*renewer.Config)) renewer.Config {
		cfg := config
		edit(&cfg)
		return cfg
	}
	for name, tt := range map[string]struct {
		cfg    renewer.Config
		manual time.Duration
		store  script.Step // the first claim's
		prep   func(t *testing.T, s *script.Store)
		free   func(*renewer.Lease) func(context.Context) error
	}{
		"after an abort": {cfg: config, free: func(l *renewer.Lease) func(context.Context) error {
			return l.Abort
		}},
		"by configuration": {cfg: bounded(func(c *renewer.Config) { c.HandOffs = -1 })},
		"its time is over": {cfg: bounded(func(c *renewer.Config) {
			c.HandOffFor = time.Second
		}), prep: func(*testing.T, *script.Store) { waitFor(time.Second) }},
		"to be held at least": {cfg: config, free: func(l *renewer.Lease) func(context.Context) error {
			l.HoldAtLeast(time.Second)
			return l.Release
		}},
		"without a heartbeat": {cfg: config, manual: config.TTL},
		"a heartbeat is asked": {cfg: bounded(func(c *renewer.Config) {
			c.HandOffFor = time.Minute
		}), prep: func(t *testing.T, s *script.Store) {
			s.Script(script.Renew, script.Pass().Late(1900*time.Millisecond))
			for len(s.Calls(script.Renew)) == 0 {
				waitFor(100 * time.Millisecond)
			}
		}},
		"a heartbeat has failed": {cfg: bounded(func(c *renewer.Config) {
			c.HandOffFor = time.Minute
		}), prep: func(t *testing.T, s *script.Store) {
			s.Script(script.Renew, script.Fail(errDown))
			for len(s.Calls(script.Renew)) == 0 {
				waitFor(time.Millisecond)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, tt.cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				callers := line(t, s, k, 3, renewer.Request{Manual: tt.manual})
				if tt.prep != nil {
					tt.prep(t, s)
				}
				free := callers[0].lease.Release
				if tt.free != nil {
					free = tt.free(callers[0].lease)
				}
				owner := s.Owner("a")
				require.False(t, callers[0].free(t, callers[1], free))
				require.NotEqual(t, owner, s.Owner("a"))
				require.Greater(t, callers[1].lease.Fence(), callers[0].lease.Fence())
				require.NoError(t, callers[1].lease.Abort(t.Context()))
				<-callers[2].got
				require.NoError(t, callers[2].lease.Release(t.Context()))
			})
		})
	}
}

// Too little is left of the lease for two more tries at a heartbeat, although
// all heartbeats were confirmed: by a store that puts answers together, of
// which the oldest counts.
func TestNotHandedOverWithTooLittleLeft(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.HandOffFor = time.Minute
	enough := cfg.Margin + 2*cfg.RequestTimeout // until the deadline
	for _, tt := range []struct {
		at     time.Duration // before enough is left
		handed bool
	}{{100 * time.Millisecond, true}, {-time.Millisecond, false}, {-time.Second, false}} {
		t.Run(tt.at.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				// no more than the acquire is good for
				s.Default(script.Renew, script.Pass().Aged(6*time.Second))
				callers := line(t, s, k, 2)
				waitFor(callers[0].lease.Remaining() + cfg.Margin - enough - tt.at)
				require.NoError(t, callers[0].lease.Context().Err())
				require.Equal(t, tt.handed, callers[0].free(t, callers[1], nil))
				require.NoError(t, callers[1].lease.Release(t.Context()))
			})
		})
	}
}

func TestNeverHandedOverAfterALoss(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 2)
		s.Delete("a")
		_, lost := lostAt(t, callers[0].lease)
		require.Equal(t, renewer.ReasonTaken, lost.Reason)
		<-callers[1].got
		require.NoError(t, callers[1].err)
		require.Len(t, s.Calls(script.Acquire), 3)
		require.ErrorIs(t, callers[0].lease.Release(t.Context()), renewer.ErrLost)
		require.True(t, callers[1].lease.Valid())
		require.NoError(t, callers[1].lease.Release(t.Context()))
	})
}

// So many in a row; then the store is asked.
func TestHandOffsAreBoundedByCount(t *testing.T) {
	t.Parallel()
	cfg := config
	cfg.HandOffs = 5
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		const n = 30
		callers := line(t, s, k, n)
		var rows []int
		row := 0
		for i := range n - 1 {
			if callers[i].free(t, callers[i+1], nil) {
				row++
				continue
			}
			rows, row = append(rows, row), 0
		}
		require.NoError(t, callers[n-1].lease.Release(t.Context()))
		require.Equal(t, []int{5, 5, 5, 5}, rows)
	})
}

// Two take turns: who comes while the other has the lock is handed
// it, although nobody waited when the store was asked.
func TestTwoHandItToAndFro(t *testing.T) {
	t.Parallel()
	inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 2)
		for range 20 {
			last := len(callers) - 1
			require.True(t, callers[last-1].free(t, callers[last], nil))
			callers = append(callers, startAcquire(t, s, k))
		}
		require.NoError(t, callers[20].lease.Release(t.Context()))
		<-callers[21].got
		require.NoError(t, callers[21].lease.Release(t.Context()))
		require.Len(t, s.Calls(script.Acquire), 2)
	})
}

// A caller who gives up in the moment in which it is handed the lock leaves it
// to the next.
func TestHandedToOneWhoLeaves(t *testing.T) {
	t.Parallel()
	for _, waiting := range []bool{true, false} {
		t.Run(fmt.Sprint("another waits: ", waiting), func(t *testing.T) {
			t.Parallel()
			inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				n := 2
				if waiting {
					n = 3
				}
				callers := line(t, s, k, n)
				waitFor(aToken)
				require.True(t, k.HandOffTo(callers[0].lease, callers[1].leave))
				<-callers[1].got
				require.ErrorIs(t, callers[1].err, context.Canceled)
				require.Nil(t, callers[1].lease)
				if waiting {
					begun := time.Now()
					<-callers[2].got
					require.NoError(t, callers[2].err)
					require.Zero(t, time.Since(begun))
					require.Greater(t, callers[2].lease.Fence(), callers[0].lease.Fence()+1)
					require.NoError(t, callers[2].lease.Release(t.Context()))
				}
				synctest.Wait()
				require.Empty(t, s.Owner("a"), "nothing is left behind")
				names, orphans := k.NamesAndOrphans()
				require.Zero(t, names+orphans)
			})
		})
	}
}

// busyObserver takes its time when a lock has been handed to a caller who does
// not know yet.
type busyObserver struct {
	renewer.NopObserver

	takes *atomic.Int64 // how long
	lost  chan renewer.Lost
}

func (o busyObserver) Claim(context.Context) string {
	waitFor(time.Duration(o.takes.Load()))
	return ""
}

func (o busyObserver) Lost(_ context.Context, e renewer.Lost) { o.lost <- e }

// A lease that is lost after it was handed on, and before its new holder can be
// told, is told then.
func TestLostBeforeItIsReceived(t *testing.T) {
	t.Parallel()
	cfg := config
	o := busyObserver{takes: new(atomic.Int64), lost: make(chan renewer.Lost, 2)}
	cfg.Observer = o
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 2)
		o.takes.Store(int64(goodFor + time.Second))
		waitFor(aToken)
		require.NoError(t, callers[0].lease.Release(t.Context()))
		<-callers[1].got
		require.NoError(t, callers[1].err)
		l := callers[1].lease
		require.ErrorIs(t, context.Cause(l.Context()), renewer.ErrLost)
		require.False(t, l.Valid())
		require.Equal(t, renewer.ReasonExpired, (<-o.lost).Err.Reason)
		require.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
		o.takes.Store(0)
	})
}

// Observers hear of each holder, and that nobody asked the store.
func TestObserversHearOfHandOffs(t *testing.T) {
	t.Parallel()
	cfg := config
	var heard recorder
	cfg.Observer = &heard
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		callers := line(t, s, k, 2, renewer.Request{Operation: "op"})
		waitFor(5*time.Millisecond - aToken)
		require.True(t, callers[0].free(t, callers[1], nil))
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		var refusal *renewer.Error
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "trace a 3", refusal.Holder.Trace, "of who has it now")
		require.NoError(t, callers[1].lease.Release(t.Context()))
		synctest.Wait()
		heard.mu.Lock()
		defer heard.mu.Unlock()
		var ends []renewer.AcquireEnd
		var over []renewer.Released
		for _, e := range heard.events {
			switch e := e.(type) {
			case renewer.AcquireEnd:
				if e.Err == nil {
					ends = append(ends, e)
				}
			case renewer.Released:
				over = append(over, e)
			}
		}
		require.Len(t, ends, 3)
		require.False(t, ends[1].HandedOver)
		require.Equal(t, renewer.AcquireEnd{
			AcquireStart: renewer.AcquireStart{Name: "a", Operation: "op"},
			Wait:         5 * time.Millisecond,
			Fence:        callers[1].lease.Fence(), Contended: true, HandedOver: true,
			Holder: contract.Holder{
				Node: "here", PID: os.Getpid(), Operation: "op", Trace: "trace a 2",
			},
			HeldFor: 5 * time.Millisecond,
		}, ends[2])
		require.Len(t, over, 3)
		require.False(t, over[0].HandedOver)
		require.True(t, over[1].HandedOver)
		require.Equal(t, 5*time.Millisecond, over[1].Held)
		require.False(t, over[2].HandedOver)
	})
}
