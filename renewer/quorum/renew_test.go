package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

var confirmed = store.Answer{Status: store.StatusHeld}

func TestRenewedByAMajorityAtOnce(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"all well": script.Pass(), "hung": script.Hang(), "refused": script.Fail(errDown),
		"slow":    script.Pass().Slow(time.Second),
		"not its": script.Gone(), "another's": script.Taken(store.Holder{Node: "x"}, time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
				mustAcquire(t, s, "a")
				nodes[1].Default(script.Renew, step)
				for range 5 {
					waitFor(ttl / 2)
					assert.Zero(t, took(func() {
						assert.Equal(t, confirmed, renew(limited(t, time.Second), s, "a"))
					}))
				}
			})
		})
	}
}

// The deadline is that of the second-best of three nodes, also when
// they confirm different heartbeats.
func TestAgeIsThatOfTheMajority(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		only := func(confirms ...int) {
			for i, node := range nodes {
				node.Default(script.Renew, script.Hang())
				for _, c := range confirms {
					if c == i {
						node.Default(script.Renew, script.Pass())
					}
				}
			}
		}
		var a store.Answer
		beat := func() time.Duration {
			return took(func() { a = renew(limited(t, time.Second), s, "a") })
		}
		mustAcquire(t, s, "a") // 0 s
		waitFor(3 * time.Second)
		only(0)
		assert.Equal(t, time.Second, beat(), "another may yet answer") // 3 s, node 1
		require.Equal(t, store.StatusUnknown, a.Status, "the second-best is as old as it was")
		require.EqualError(t, a.Err, "quorum: renew: 2 of 3 nodes gave no answer, 2 must agree: "+
			"node 2: context deadline exceeded; node 3: context deadline exceeded")
		only(1)
		beat() // 4 s, node 2
		assert.Equal(t, store.Answer{Status: store.StatusHeld, Age: time.Second}, a,
			"two of three: at 3 s and 4 s")
		beat() // 5 s, node 2
		require.Equal(t, store.StatusUnknown, a.Status, "told already: since 3 s")
		only(2)
		beat() // 6 s, node 3
		assert.Equal(t, store.Answer{Status: store.StatusHeld, Age: time.Second}, a,
			"at 5 s and 6 s")
		only(0, 2)
		assert.Zero(t, beat())
		assert.Equal(t, confirmed, a)
		waitFor(ttl)
		for _, node := range nodes {
			node.Default(script.Renew, script.Fail(errDown))
		}
		nodes[1].Default(script.Renew, script.Held())
		beat()
		require.Equal(t, store.StatusUnknown, a.Status, "the others are as old as they were")
	})
}

// A confirmation as old as the TTL confirms nothing.
func TestTooOldToConfirm(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		for _, node := range nodes {
			node.Default(script.Renew, script.Fail(errDown))
		}
		waitFor(time.Second)
		nodes[1].Script(script.Renew, script.Pass())
		require.Equal(t, store.StatusUnknown, renew(t.Context(), s, "a").Status)
		waitFor(ttl)
		nodes[1].Script(script.Renew, script.Fail(errDown))
		nodes[2].Script(script.Renew, script.Held())
		require.Equal(t, store.StatusUnknown, renew(t.Context(), s, "a").Status,
			"nodes 2 and 3, but node 2 a TTL ago")
	})
}

// A heartbeat that is overtaken by the next confirms no more than itself.
func TestAnOvertakenHeartbeat(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		for _, node := range nodes {
			node.Script(script.Renew, script.Hang())
		}
		waitFor(time.Second)
		first := make(chan store.Answer, 1)
		go func() { first <- renew(limited(t, 2*time.Second), s, "a") }()
		waitFor(time.Second)
		assert.Equal(t, confirmed, renew(t.Context(), s, "a"))
		assert.Equal(t, confirmed, <-first)
	})
}

// What a late answer says counts from when the heartbeat was sent, for the next
// one.
func TestLateConfirmationsCount(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		nodes[0].Default(script.Renew, script.Fail(errDown))
		nodes[1].Script(script.Renew, script.Pass().Late(900*time.Millisecond))
		assert.Equal(t, 900*time.Millisecond, took(func() {
			assert.Equal(t, confirmed, renew(t.Context(), s, "a"))
		}), "it is needed")
		waitFor(100 * time.Millisecond)

		nodes[0].Default(script.Renew, script.Pass())
		nodes[2].Script(script.Renew, script.Pass().Late(500*time.Millisecond))
		nodes[1].Script(script.Renew, script.Fail(errDown))
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		require.Equal(t, store.StatusUnknown, renew(ctx, s, "a").Status,
			"at 2 s: node 1 has, node 3 was given up")
		nodes[0].Script(script.Renew, script.Fail(errDown))
		nodes[1].Script(script.Renew, script.Fail(errDown))
		assert.Equal(t, store.Answer{Status: store.StatusHeld, Age: 400 * time.Millisecond},
			renew(t.Context(), s, "a"), "at 2.4 s: node 3, and node 1 by then")
	})
}

// A node that says no is left out, and too few that are left are the end.
func TestLostWhenAMajoritySaysSo(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		synctest.Wait()
		nodes[0].Delete("n")
		nodes[4].Default(script.Renew, script.Hang())
		assert.Zero(t, took(func() {
			assert.Equal(t, confirmed, renew(limited(t, time.Second), s, "a"))
		}), "three of five are left")
		nodes[4].Default(script.Renew, script.Pass())
		nodes[1].Overwrite("n", store.Holder{Node: "x"}, time.Minute)
		assert.Equal(t, confirmed, renew(t.Context(), s, "a"))
		nodes[4].Default(script.Renew, script.Hang())
		nodes[2].Delete("n")
		nodes[3].Default(script.Renew, script.Hang())
		assert.Zero(t, took(func() {
			assert.Equal(t, store.Answer{
				Status: store.StatusTaken, Holder: &store.Holder{Node: "x"},
			}, renew(limited(t, time.Second), s, "a"))
		}))
		waitFor(2 * time.Second)
		for _, i := range []int{0, 2, 3, 4} {
			assert.Empty(t, nodes[i].Owner("n"), "what is left is freed for who comes next")
		}
		assert.Zero(t, quorum.Known(s))
		for _, node := range nodes[3:] {
			node.Default(script.Renew, script.Pass())
		}
		nodes[1].Delete("n")
		assert.Equal(t, store.Answer{Status: store.StatusGone}, renew(t.Context(), s, "a"))
	})
}

// A yes that is older than a no does not count: it may be the no that came
// later.
func TestALateYesDoesNotUndoANo(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		nodes[1].Default(script.Renew, script.Fail(errDown))
		nodes[0].Script(script.Renew, script.Pass())
		nodes[2].Script(script.Renew, script.Pass().Late(time.Second))
		first := make(chan store.Answer, 1)
		go func() { first <- renew(limited(t, 3*time.Second), s, "a") }()
		synctest.Wait()
		nodes[2].Delete("n")
		second := renew(limited(t, 500*time.Millisecond), s, "a")
		require.Equal(t, store.StatusUnknown, second.Status)
		require.ErrorContains(t, second.Err,
			"1 of 3 nodes gave no answer and 1 have not got the lease, 2 must agree: node 2: "+
				"connection refused")
		require.Equal(t, store.StatusUnknown, (<-first).Status,
			"of the two that said yes one has said no since")
	})
}

// A node that refuses the owner's own claim is out of the lease, as one that
// refuses a renewal is.
func TestARefusedClaimUndoesAConfirmation(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		for _, node := range nodes {
			node.Default(script.Renew, script.Fail(errDown))
		}
		waitFor(time.Second)
		nodes[2].Script(script.Renew, script.Pass())
		require.Equal(t, store.StatusUnknown, renew(t.Context(), s, "a").Status, "node 3 alone")
		nodes[0].Script(script.Acquire, script.Fail(errDown))
		nodes[1].Script(script.Acquire, script.Fail(errDown))
		nodes[2].Overwrite("n", store.Holder{Node: "x"}, time.Minute)
		require.NotEqual(t, store.StatusHeld, acquire(limited(t, time.Second), s, "a").Status)
		waitFor(time.Second)
		nodes[0].Script(script.Renew, script.Pass())
		require.Equal(t, store.StatusUnknown, renew(t.Context(), s, "a").Status,
			"node 1, without node 3 now")
	})
}

// A store that has not acquired a lease renews it by what the nodes say.
func TestRenewsWhatAnotherStoreAcquired(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		fence := mustAcquire(t, s, "a")
		other, err := quorum.NewEngine([]store.Store{nodes[0], nodes[1], nodes[2]})
		require.NoError(t, err)
		waitFor(time.Second)
		assert.Equal(t, confirmed, renew(t.Context(), other, "a"))
		synctest.Wait()
		waitFor(time.Second)
		nodes[0].Default(script.Renew, script.Fail(errDown))
		nodes[1].Default(script.Renew, script.Fail(errDown))
		assert.Equal(t, store.StatusUnknown, renew(limited(t, time.Second), other, "a").Status)
		waitFor(time.Second)
		nodes[1].Script(script.Renew, script.Pass())
		nodes[2].Script(script.Renew, script.Fail(errDown))
		assert.Equal(t, store.Answer{Status: store.StatusHeld, Age: time.Second},
			renew(t.Context(), other, "a"), "it is known from then on")
		nodes[0].Default(script.Renew, script.Pass())
		nodes[1].Default(script.Renew, script.Pass())
		g := acquire(t.Context(), other, "a")
		require.Equal(t, store.StatusHeld, g.Status)
		assert.Greater(t, g.Fence, fence, "another store can't know the token")
		assert.Equal(t, store.StatusHeld, release(t.Context(), other, "a").Status)
		synctest.Wait()
		requireFree(t, "n", nodes)
		assert.Equal(t, store.StatusGone, renew(limited(t, time.Second), other, "b").Status)
		assert.Zero(t, quorum.Known(other))
	})
}
