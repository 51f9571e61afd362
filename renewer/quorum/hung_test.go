package quorum_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Programs that want one lock at the same time need every node that answers,
// and each gets some of them at first. As long as a minority hangs, the lock
// goes on from hand to hand nearly as if that minority were down: no caller
// keeps what the others need while it waits for a node that hangs.
func TestCallersWhoContendBesideHungNodes(t *testing.T) {
	t.Parallel()
	for i := range suite.Size(1, 3) {
		n, callers := []int{3, 3, 5}[i], []int{6, 3, 3}[i]
		t.Run(fmt.Sprint(callers, " callers, ", n, " nodes"), func(t *testing.T) {
			t.Parallel()
			down, gap := contend(t, n, callers, script.Fail(errDown))
			t.Logf("down: %d turns, longest gap %v", down, gap)
			hung, gap := contend(t, n, callers, script.Hang())
			t.Logf("hung: %d turns, longest gap %v", hung, gap)
			assert.Greater(t, hung, down/2)
			assert.Less(t, gap, 200*time.Millisecond)
		})
	}
}

// contend has callers of programs of their own want one lock for a second,
// while a minority of n nodes answers by a step. It returns how often the lock
// was had, and the longest time between two grants.
func contend(t *testing.T, n, callers int, how script.Step) (turns int, gap time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes, stores := scripted(n)
		away := script.Pass().Slow(100 * time.Microsecond).Late(100 * time.Microsecond)
		for i, node := range nodes {
			for _, op := range []script.Op{script.Acquire, script.Release} {
				node.Default(op, away)
				if i%2 == 1 {
					node.Default(op, how)
				}
			}
		}
		var mu sync.Mutex // guards turns, gap, and what follows
		var fence int64
		var wg sync.WaitGroup
		begun := time.Now()
		last, end := begun, begun.Add(time.Second)
		for i := range callers {
			s, err := quorum.NewEngine(stores)
			require.NoError(t, err)
			k, err := renewer.New(s, renewer.Config{TTL: ttl, Node: fmt.Sprint("node ", i)})
			require.NoError(t, err)
			wg.Go(func() {
				for time.Now().Before(end) {
					l, err := k.Acquire(t.Context(), renewer.Request{Name: "n"})
					if !assert.NoError(t, err) {
						break
					}
					mu.Lock()
					turns++
					gap, last = max(gap, time.Since(last)), time.Now()
					assert.Greater(t, l.Fence(), fence)
					fence = l.Fence()
					mu.Unlock()
					waitFor(5 * time.Millisecond)
					mu.Lock()
					assert.Equal(t, l.Fence(), fence, "no other has it")
					mu.Unlock()
					assert.NoError(t, l.Release(t.Context()))
				}
				assert.NoError(t, k.Shutdown(context.Background()))
				s.Close()
			})
		}
		wg.Wait()
		waitFor(time.Minute)
	})
	return turns, gap
}

// A node that has granted to another since is no reason to wait for one that
// hangs: the token is raised, and the first two are asked again.
func TestATokenIsRaisedBesideAHungNode(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		high := time.Now().Add(time.Hour).UnixMicro()
		propose(t, nodes[0], claim("n", "x"), high)
		nodes[0].Delete("n")
		nodes[2].Default(script.Acquire, script.Hang())
		assert.Equal(t, 5*time.Millisecond, took(func() {
			g := acquire(limited(t, time.Second), s, "a")
			assert.Equal(t, store.StatusHeld, g.Status, g.Err)
			assert.Equal(t, high+1, g.Fence)
		}))
	})
}

// A caller who has just let go waits for that to be over, not for a node that
// hangs.
func TestAReleaseUnderWayBesideAHungNode(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[2].Default(script.Acquire, script.Hang())
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		nodes[0].Script(script.Release, script.Pass().Late(20*time.Millisecond))
		go release(t.Context(), s, "a")
		synctest.Wait()
		d := took(func() {
			g := acquire(limited(t, 5*time.Second), s, "a")
			assert.Equal(t, store.StatusHeld, g.Status, g.Err)
		})
		assert.Less(t, d, 40*time.Millisecond)
		assert.Equal(t, "aa-", owners("n", nodes))
	})
}

// Callers who contend wait for a silent node once. When it has answered, they
// do so again.
func TestASilentNodeIsWaitedForOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Script(script.Acquire, script.Fail(errDown))
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		for _, c := range []struct {
			third script.Step
			takes time.Duration
		}{
			{script.Hang(), 5 * time.Millisecond},
			{script.Hang(), 0},
			{script.Fail(errDown).Late(500 * time.Millisecond), 0}, // an error is no answer
			{script.Hang(), 0},
			{script.Pass().Late(500 * time.Millisecond), 0},
			{script.Hang(), 5 * time.Millisecond},
		} {
			nodes[2].Script(script.Acquire, c.third)
			assert.Equal(t, c.takes, took(func() {
				assert.Equal(t, store.StatusTaken, acquire(t.Context(), s, "b").Status)
			}), c)
			waitFor(4 * time.Second)
			s.Renew(t.Context(), []store.Hold{hold("n", "a")})
		}
	})
}
