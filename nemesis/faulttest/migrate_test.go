//go:build unix

package faulttest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// sameSlot makes names of locks that share a slot.
func sameSlot(n int) (slot int, names []string) {
	slot = redistest.Slot("name 0")
	for i := 0; len(names) < n; i++ {
		if name := fmt.Sprint("name ", i); redistest.Slot(name) == slot {
			names = append(names, name)
		}
	}
	return slot, names
}

// other returns a master that does not serve a slot.
func other(t *testing.T, cluster *redistest.Cluster, slot int) *redistest.Server {
	t.Helper()
	serving, err := cluster.Serving(slot)
	require.NoError(t, err)
	for _, m := range cluster.Masters {
		if m != serving {
			return m
		}
	}
	return nil
}

// lostCount counts leases lost.
type lostCount struct {
	renewer.NopObserver
	n atomic.Int32
}

func (c *lostCount) Lost(context.Context, renewer.Lost) { c.n.Add(1) }

var moveConfig = renewer.Config{
	TTL: 6 * time.Second, Heartbeat: 200 * time.Millisecond,
	Margin: 400 * time.Millisecond,
}

// A slot stands still between two servers, with locks of every kind in
// it: the leases there go on being renewed and released, what is held is
// known to be so, and what is free can be had when the slot has arrived.
func TestASlotHalfWayBetweenTwoServers(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	lost := &lostCount{}
	cfg := moveConfig
	cfg.Observer = lost
	m := enlist(t, cluster.ClientOption(), cluster.Nodes(), cfg)
	rival := enlist(t, cluster.ClientOption(), cluster.Nodes(), moveConfig)
	slot, names := sameSlot(8)
	stays, moved, leaseMoved, fenceMoved, freedThere, freedHere, known, fresh :=
		names[0], names[1], names[2], names[3], names[4], names[5], names[6], names[7]
	leases := map[string]*renewer.Lease{}
	for _, name := range names[:7] {
		l, err := m.keeper.Acquire(t.Context(), name)
		require.NoError(t, err)
		leases[name] = l
	}
	require.NoError(t, leases[known].Release(t.Context()), "only its fence counter is left")
	countersAhead(t, cluster, slot)

	move, err := cluster.BeginMove(slot, other(t, cluster, slot))
	require.NoError(t, err)
	require.NoError(t, move.Keys(key(moved), key(moved)+":fence", key(leaseMoved),
		key(fenceMoved)+":fence",
		key(freedThere), key(freedThere)+":fence"))
	pass(moveConfig.TTL)
	for _, name := range []string{stays, moved, leaseMoved, fenceMoved} {
		assert.True(t, leases[name].Valid(), "%s is renewed on either side", name)
	}
	assert.NoError(t, leases[freedThere].Release(t.Context()))
	assert.NoError(t, leases[freedHere].Release(t.Context()))

	for _, name := range []string{stays, moved, leaseMoved, fenceMoved} {
		_, err := rival.keeper.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, renewer.ErrHeld, "%s is held on either side", name)
	}
	for _, name := range []string{known, fresh, freedThere, freedHere} {
		_, err := rival.keeper.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, renewer.ErrUnavailable, name)
		require.ErrorContains(t, err, "TRYAGAIN")
	}
	free := []string{known, fresh, freedThere, freedHere}
	waiting := make([]chan got, len(free))
	for i, name := range free {
		waiting[i] = make(chan got, 1)
		go func() {
			l, err := rival.keeper.Acquire(context.Background(), name, renewer.MaxWait(patience))
			waiting[i] <- got{l, time.Now(), err}
		}()
	}
	pass(moveConfig.Heartbeat)

	require.NoError(t, move.Finish())
	arrived := time.Now()
	for i, name := range free {
		g := <-waiting[i]
		require.NoError(t, g.err, name)
		t.Logf("%s acquired %v after the slot's arrival", name, g.at.Sub(arrived))
		if former := leases[name]; former != nil {
			assert.Greater(t, g.lease.Fence(), former.Fence())
		}
		assert.NoError(t, g.lease.Release(t.Context()))
	}
	pass(moveConfig.TTL)
	for _, name := range []string{stays, moved, leaseMoved, fenceMoved} {
		assert.True(t, leases[name].Valid(), name)
		assert.NoError(t, leases[name].Release(t.Context()))
	}
	assert.Zero(t, lost.n.Load())
}

// countersAhead has the counters of each name in a slot read, as if one were ahead of the clock.
func countersAhead(t *testing.T, cluster *redistest.Cluster, slot int) {
	t.Helper()
	for _, m := range cluster.Masters {
		keys, err := m.Do("KEYS", "*}:mark").AsStrSlice()
		require.NoError(t, err)
		for _, mark := range keys {
			if redistest.Slot(mark) == slot {
				require.NoError(t, m.Do("SET", mark+":own", "8000000000000000", "PX", "60000").Error())
				return
			}
		}
	}
	require.Fail(t, "the slot has no mark")
}

// A slot goes round the servers while its locks are held, taken and
// freed: none is lost, every acquire succeeds, and tokens rise.
func TestASlotOnTheMove(t *testing.T) {
	t.Parallel()
	const churners = 4
	cluster := redistest.StartCluster(t, 3, 0)
	lost := &lostCount{}
	cfg := moveConfig
	cfg.Observer = lost
	m := enlist(t, cluster.ClientOption(), cluster.Nodes(), cfg)
	slot, names := sameSlot(20)
	var leases []*renewer.Lease
	for _, name := range names[churners:] {
		l, err := m.keeper.Acquire(t.Context(), name)
		require.NoError(t, err)
		leases = append(leases, l)
	}

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var turns atomic.Int32
	for _, name := range names[:churners] {
		wg.Go(func() {
			last := int64(0)
			for ctx.Err() == nil {
				l, err := m.keeper.Acquire(context.Background(), name, renewer.MaxWait(patience))
				if !assert.NoError(t, err) {
					return
				}
				assert.Greater(t, l.Fence(), last)
				last = l.Fence()
				assert.NoError(t, l.Release(context.Background()))
				turns.Add(1)
			}
		})
	}
	random := roll(t)
	rounds := int32(0)
	for begun := time.Now(); time.Since(begun) < moveConfig.TTL; rounds++ {
		move, err := cluster.BeginMove(slot, other(t, cluster, slot))
		require.NoError(t, err)
		pass(random.between(0, 100*time.Millisecond))
		require.NoError(t, move.Keys(key(names[5]), key(names[6])+":fence", key(names[0])+":fence",
			key(names[1])))
		pass(random.between(0, 100*time.Millisecond))
		require.NoError(t, move.Finish())
		pass(random.between(0, 100*time.Millisecond))
	}
	stop()
	wg.Wait()
	t.Logf("%d acquires and releases during %d moves", turns.Load(), rounds)
	assert.Greater(t, turns.Load(), rounds)
	for _, l := range leases {
		assert.True(t, l.Valid(), l.Name())
		assert.NoError(t, l.Release(t.Context()))
	}
	assert.Zero(t, lost.n.Load())
}

// A release that gives tokens back where its lease has arrived and the slot's mark has not: it made
// a second mark there, and the slot could not be moved any more.
func TestTheMarkOfASlotIsOnOneServer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := cluster.Client(t)
	store, err := redisstore.New(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	slot, names := sameSlot(1)
	owner := strings.Repeat("a", renewer.OwnerLen)
	for i, used := range []int64{0, 5} {
		to := other(t, cluster, slot)
		g := store.Acquire(t.Context(), []renewer.Claim{{
			Name: names[0], Owner: owner, TTL: time.Minute, Reserve: 100,
		}})[0]
		require.Equal(t, renewer.StatusHeld, g.Status, "%v", g.Err)
		move, err := cluster.BeginMove(slot, to)
		require.NoError(t, err)
		moved := []string{key(names[0])}
		if i == 0 {
			moved = append(moved, key(names[0])+":ahead")
		}
		require.NoError(t, move.Keys(moved...))
		a := store.Release(t.Context(), []renewer.Hold{{
			Name: names[0], Owner: owner, Used: g.Fence + used,
		}})[0]
		require.Equal(t, renewer.StatusHeld, a.Status, "%v", a.Err)
		require.NoError(t, move.Finish())
		next := store.Acquire(t.Context(), []renewer.Claim{{
			Name: names[0], Owner: owner, TTL: time.Minute,
		}})[0]
		require.Equal(t, renewer.StatusHeld, next.Status, "%v", next.Err)
		require.Greater(t, next.Fence, g.Fence+used)
		store.Release(t.Context(), []renewer.Hold{{Name: names[0], Owner: owner}})
	}
}
