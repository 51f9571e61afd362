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

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// delayed is a node as one program sees it: requests and replies take their
// time.
type delayed struct {
	*script.Store
	delay func() time.Duration
}

func (d delayed) wait(ctx context.Context) {
	select {
	case <-time.After(d.delay()):
	case <-ctx.Done():
	}
}

func (d delayed) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	d.wait(ctx)
	defer d.wait(ctx)
	return d.Store.Propose(ctx, proposals)
}

func (d delayed) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	d.wait(ctx)
	defer d.wait(ctx)
	return d.Store.Release(ctx, holds)
}

// programs are stores of n programs on the same nodes, each with its own way to
// each of them.
func programs(
	t *testing.T, n int, nodes []*script.Store, delay func(program, node int) time.Duration,
) (all []*quorum.Engine) {
	t.Helper()
	for p := range n {
		var mine []store.Store
		for i, node := range nodes {
			mine = append(mine, delayed{node, func() time.Duration { return delay(p, i) }})
		}
		s, err := quorum.NewEngine(mine)
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

// Three programs that are each nearest to another node split the nodes. One of
// them gets the lock all the same, in one call, and a node that hangs changes
// nothing.
func TestSplitVotes(t *testing.T) {
	t.Parallel()
	for _, hung := range []int{-1, 0, 1, 2} {
		t.Run(fmt.Sprint("hung: ", hung), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				nodes, _ := scripted(3)
				if hung >= 0 {
					nodes[hung].Default(script.Acquire, script.Hang())
					nodes[hung].Default(script.Release, script.Hang())
				}
				all := programs(t, 3, nodes, func(program, node int) time.Duration {
					return time.Duration(1+(node-program+3)%3) * time.Millisecond
				})
				var wg sync.WaitGroup
				grants, after := make([]store.Grant, len(all)), make([]time.Duration, len(all))
				for i, s := range all {
					if i == hung {
						continue // it would be late, and have the others' leavings
					}
					c := claim("n", string(rune('a'+i)))
					c.Holder = store.Holder{Node: "they all look alike"}
					wg.Go(func() {
						after[i] = took(func() {
							grants[i] = s.Acquire(limited(t, time.Second), []store.Claim{c})[0]
						})
					})
				}
				wg.Wait()
				granted := 0
				for i, g := range grants {
					require.NoError(t, g.Err)
					assert.Less(t, after[i], 500*time.Millisecond)
					if g.Status != store.StatusHeld {
						continue
					}
					granted++
					// 6 ms to be refused, at most 9 for the others to let go, 6
					// to be granted
					if hung < 0 {
						assert.LessOrEqual(t, after[i], 21*time.Millisecond)
					}
				}
				assert.Equal(t, 1, granted)
				waitFor(time.Minute)
				for i, s := range all {
					assert.LessOrEqual(t, quorum.Known(s), 1, "program %d", i)
				}
			})
		})
	}
}

// Named nodes have one order for all programs, however they are
// listed: of two who split them one leads.
func TestSplitVotesOverNodesInAnyOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, _ := scripted(3)
		var all []*quorum.Engine
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}} {
			var stores []store.Store
			var names []string
			for at, i := range order {
				stores = append(stores, delayed{nodes[i], func() time.Duration {
					return time.Duration(at+1) * time.Millisecond
				}})
				names = append(names, string(rune('a'+i)))
			}
			s, err := quorum.NewEngine(stores, quorum.Names(names...))
			require.NoError(t, err)
			all = append(all, s)
		}
		nodes[1].Default(script.Acquire, script.Fail(errDown))
		var wg sync.WaitGroup
		for i, s := range all {
			wg.Go(func() {
				var g store.Grant
				d := took(func() { g = acquire(limited(t, time.Second), s, string(rune('a'+i))) })
				assert.Equal(t, i == 0, g.Status == store.StatusHeld, "who has node a leads")
				assert.Less(t, d, 500*time.Millisecond)
			})
		}
		wg.Wait()
		waitFor(time.Minute)
	})
}
