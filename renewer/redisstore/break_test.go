package redisstore_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// keeper makes a keeper on a store and a client of its own, which hears by
// messages what it hears before patience is over.
func (s server) keeper(t *testing.T) *renewer.Keeper {
	t.Helper()
	return keeperOn(t, s.store(t),
		renewer.Config{TTL: time.Minute, Poll: time.Minute, Log: renewer.Silent})
}

// breaker is the store of a user who may look and break, by the documented
// line, and no more.
func (s server) breaker(t *testing.T) *redisstore.Engine {
	t.Helper()
	client := s.userNamed(t, "breaks", redisstore.DefaultPrefix,
		strings.Fields(redisstore.LookRights+" "+redisstore.BreakRights+" "+
			redisstore.BreakLimitRights)...)
	locks := storeOn(t, client, redisstore.ToInspect())
	return locks
}

// A lease that is broken ends its operation's context at once, though it has no
// heartbeat. The waiter has it when the operation has returned, and not before;
// by force at once.
func TestBreak(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit bool
		force bool
	}{
		"lock": {}, "lock, by force": {force: true},
		"limit": {limit: true}, "limit, by force": {limit: true, force: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			holder, waiter, look := s.keeper(t), s.keeper(t), s.breaker(t)
			request := renewer.Request{Name: name, Manual: time.Minute}
			if c.limit {
				request.Limit = func() int { return 1 }
			}
			first, err := holder.Acquire(t.Context(), request)
			require.NoError(t, err)
			s.awaitProcess(t)

			known := contract.Name{Text: name, Limit: c.limit}
			line := redisstore.KeyOf(redisstore.DefaultPrefix, known) + ":waiters"
			got := make(chan *renewer.Lease, 1)
			go func() {
				patient := request
				patient.MaxWait = patience
				l, err := waiter.Acquire(t.Context(), patient)
				assert.NoError(t, err)
				got <- l
			}()
			require.Eventually(t, func() bool { // it stands in line
				return s.number(t, "ZCARD", line) == 1
			}, patience, time.Millisecond)

			order := store.Breaking{
				Name: name, Limit: c.limit, Fence: first.Fence(),
				Broken: store.Broken{By: "alice", Why: "hangs", Force: c.force},
			}
			answer := look.Break(t.Context(), order)
			require.NoError(t, answer.Err)
			require.Equal(t, store.StatusHeld, answer.Status)
			<-first.Context().Done()
			var lost *renewer.LostError
			require.ErrorAs(t, context.Cause(first.Context()), &lost)
			assert.Equal(t, renewer.ReasonBroken, lost.Reason)
			assert.Equal(t, []string{"alice", "hangs"}, []string{lost.By, lost.Why})
			var second *renewer.Lease
			if c.force {
				second = <-got // the first in line
			} else {
				assert.Positive(t, lost.Left)
				again := look.Break(t.Context(), order)
				assert.Equal(t, store.StatusHeld, again.Status, "it still has the lock")
			}
			assert.ErrorIs(t, first.Release(t.Context()), renewer.ErrLost)
			if !c.force {
				second = <-got
			}
			assert.True(t, second.Valid(), "a late release does not touch it")
			assert.Greater(t, second.Fence(), first.Fence())
			assert.NoError(t, second.Release(t.Context()))
		})
	}
}

// While a cluster moves a slot, no lease of it can be broken, since the record
// of who broke it might be at either node. The error says that this passes, and
// it does; nothing is broken by halves.
func TestBreakOnASlotOnTheMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, 0)
	s := server{option: cluster.ClientOption()}
	locks := s.store(t)
	fences := make(map[bool]int64) // by whether it is a limit's
	for _, c := range []store.Claim{claim("a", "a", time.Minute), slotClaim("a", "a", 1)} {
		grant := acquire(t, locks, c)
		require.Equal(t, store.StatusHeld, grant.Status)
		fences[c.Limit != 0] = grant.Fence
	}
	slot := redistest.Slot("a")
	to := cluster.Masters[0]
	if serving, err := cluster.Serving(slot); assert.NoError(t, err) && serving == to {
		to = cluster.Masters[1]
	}
	move, err := cluster.BeginMove(slot, to)
	require.NoError(t, err)
	order := func(limit, force bool) store.Breaking {
		return store.Breaking{
			Name: "a", Limit: limit, Fence: fences[limit],
			Broken: store.Broken{By: "me", Why: "test", Force: force},
		}
	}
	for limit := range fences {
		for _, force := range []bool{false, true} {
			err := locks.Break(t.Context(), order(limit, force)).Err
			require.ErrorContains(t, err, "the lock's slot of the cluster is being moved: try again")
			require.NotErrorIs(t, err, renewer.ErrRejected)
		}
		held := hold("a", "a", time.Minute)
		held.Limit = limit
		renewed := renew(t, locks, held)
		require.Equal(t, store.StatusHeld, renewed.Status)
	}
	require.NoError(t, move.Finish())
	for limit := range fences {
		answer := locks.Break(t.Context(), order(limit, true))
		require.NoError(t, answer.Err)
		assert.Equal(t, store.StatusHeld, answer.Status)
	}
}

// awaitProcess waits until all keepers of this process that have renewed a
// lease listen.
func (s server) awaitProcess(t *testing.T) {
	t.Helper()
	node, err := os.Hostname()
	require.NoError(t, err)
	channel := redisstore.ProcessChannel(redisstore.DefaultPrefix, store.Holder{
		Node: node, PID: os.Getpid(),
	})
	require.Eventually(t, func() bool {
		heard, err := s.do(t, "PUBLISH", channel, "").ToInt64()
		return err == nil && heard > 0
	}, patience, 10*time.Millisecond)
}
