package faulttest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
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

var moveConfig = renewer.Config{
	TTL: 6 * time.Second, Heartbeat: 200 * time.Millisecond,
	Margin: 400 * time.Millisecond,
}

// A slot goes round the servers while its locks and limits are held, taken and
// freed: none is lost, every acquire succeeds, tokens rise, and no move gets stuck.
func TestASlotOnTheMove(t *testing.T) {
	t.Parallel()
	const churners = 4
	cluster := redistest.StartCluster(t, 3, 0)
	p := kit.Start(t, cluster.ClientOption(), moveConfig, cluster.Nodes()...)
	slot, names := sameSlot(20)
	var leases []*renewer.Lease
	atMost := func(i int) func() int { // every second one is a limit
		if i%2 == 0 {
			return nil
		}
		return func() int { return 3 }
	}
	for i, name := range names[churners:] {
		l, err := p.Keeper.Acquire(t.Context(), renewer.Request{Name: name, Limit: atMost(i)})
		require.NoError(t, err)
		leases = append(leases, l)
	}

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var turns atomic.Int32
	for i, name := range names[:churners] {
		wg.Go(func() {
			last := int64(0)
			for ctx.Err() == nil {
				l, err := p.Keeper.Acquire(context.Background(), renewer.Request{
					Name: name, MaxWait: kit.Patience, Limit: atMost(i),
				})
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
	rounds := int32(0)
	for begun := time.Now(); time.Since(begun) < moveConfig.TTL; rounds++ {
		move, err := cluster.BeginMove(slot, other(t, cluster, slot))
		require.NoError(t, err)
		wait(moment(100 * time.Millisecond))
		slots := kit.Key(names[7]) + ":slots"
		require.NoError(t, move.Keys(kit.Key(names[0]), kit.Key(names[4]), kit.Key(names[6]),
			slots, slots+":holders"))
		// A claim where the mark has not arrived yet makes no second one.
		if l, err := p.Keeper.Acquire(t.Context(), renewer.Request{
			Name: names[7], Limit: atMost(1), Try: true,
		}); err == nil {
			require.NoError(t, l.Release(t.Context()))
		}
		wait(moment(100 * time.Millisecond))
		require.NoError(t, move.Finish())
		wait(moment(100 * time.Millisecond))
	}
	stop()
	wg.Wait()
	t.Logf("%d acquires and releases during %d moves", turns.Load(), rounds)
	assert.Greater(t, turns.Load(), rounds)
	for _, l := range leases {
		assert.NoError(t, l.Err())
		assert.NoError(t, l.Release(t.Context()))
	}
}

// While a lock has moved and the note of which call is the newest has not, another call makes no
// second note, which would keep the first from moving. It is the newest all the same.
func TestTheNewestCallOnASlotOnTheMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	var p [3]*kit.Process
	for i := range p {
		p[i] = kit.Start(t, cluster.ClientOption(), moveConfig, cluster.Nodes()...)
	}
	const name = "name"
	slot, key := redistest.Slot(name), kit.Key(name)
	lease := p[0].Acquire(t, name)
	var calls [2]<-chan error
	call := func(i int) {
		ended := make(chan error, 1)
		calls[i] = ended
		go func() {
			l, err := p[1+i].Keeper.Acquire(t.Context(), renewer.Request{
				Name: name, Newest: renewer.NewestWaits,
			})
			if err == nil {
				err = l.Release(t.Context())
			}
			ended <- err
		}()
	}
	noted := func(s *redistest.Server) bool {
		n, err := s.Do("EXISTS", key+":newest").AsInt64()
		return err == nil && n == 1
	}
	from, err := cluster.Serving(slot)
	require.NoError(t, err)
	call(0)
	require.Eventually(t, func() bool { return noted(from) }, kit.Patience, time.Millisecond)
	move, err := cluster.BeginMove(slot, other(t, cluster, slot))
	require.NoError(t, err)
	require.NoError(t, move.Keys(key))
	call(1)
	wait(200 * time.Millisecond)
	require.NoError(t, move.Finish())
	require.ErrorIs(t, <-calls[0], renewer.ErrReplaced)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, <-calls[1])
}

// While a broken lease has moved and who broke it has not, it can't be broken by force: a second
// note would keep the first from moving.
func TestABreakByForceOnASlotOnTheMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	p := kit.Start(t, cluster.ClientOption(), moveConfig, cluster.Nodes()...)
	slot, names := sameSlot(2)
	locks := engine.In(p.Store)
	broken := func(i int, force bool) store.Answer {
		lock, err := locks.Show(t.Context(), names[i], i == 1)
		require.NoError(t, err)
		require.Len(t, lock.Slots, 1)
		return locks.Break(t.Context(), store.Breaking{
			Name: names[i], Limit: i == 1, Fence: lock.Slots[0].Fence,
			Broken: store.Broken{By: "alice", Force: force},
		})
	}
	var keys []string
	for i, name := range names {
		r := renewer.Request{Name: name}
		key := kit.Key(name)
		if i == 0 {
			keys = append(keys, key)
		} else {
			r.Limit = func() int { return 1 }
			keys = append(keys, key+":slots", key+":slots:holders")
		}
		lease := p.AcquireAs(t, r)
		defer func() { _ = lease.Release(t.Context()) }() // it is lost
		require.Equal(t, store.StatusHeld, broken(i, false).Status)
	}
	move, err := cluster.BeginMove(slot, other(t, cluster, slot))
	require.NoError(t, err)
	require.NoError(t, move.Keys(keys...))
	for i := range names {
		require.Error(t, broken(i, true).Err)
	}
	require.NoError(t, move.Finish())
	for i := range names {
		require.Equal(t, store.StatusHeld, broken(i, true).Status)
	}
}
