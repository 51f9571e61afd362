package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestOneRoundAndTheClockForAToken(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		fence := mustAcquire(t, s, "a")
		assert.Equal(t, time.Now().UnixMicro(), fence)
		synctest.Wait()
		for _, node := range nodes {
			require.Len(t, node.Calls(script.Acquire), 1)
			assert.Equal(t, fence, node.Calls(script.Acquire)[0].Proposals[0].Fence,
				"the same token everywhere")
		}
		assert.Equal(t, "aaaaa", owners("n", nodes))
		assert.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
		assert.Equal(t, fence+1, mustAcquire(t, s, "b"), "in the same microsecond")
	})
}

// One node that hangs, refuses or is slow costs neither time nor the lock.
func TestOneFaultyNodeCostsNothing(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"hung": script.Hang(), "refused": script.Fail(errDown),
		"slow": script.Pass().Slow(time.Second),
		"late": script.Pass().Late(time.Second), "reply lost": script.Pass().Lost(),
		"strange": script.Granted(1), "stranger": script.Gone(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
				nodes[0].Default(script.Acquire, step)
				nodes[0].Default(script.Release, step)
				for range 3 {
					assert.Zero(t, took(func() { mustAcquire(t, s, "a") }))
					assert.Zero(t, took(func() {
						g := acquire(t.Context(), s, "b")
						assert.Equal(t, store.StatusTaken, g.Status)
						assert.Equal(t, "node-a", g.Holder.Node)
						assert.Equal(t, ttl, g.TTL)
					}))
					assert.Zero(t, took(func() {
						assert.Equal(t, store.StatusHeld, release(t.Context(), s, "a").Status)
					}))
					waitFor(time.Second)
				}
			})
		})
	}
}

func TestTooManyFaultyNodesAreNoBusyLock(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Default(script.Acquire, script.Fail(errDown))
		nodes[2].Default(script.Acquire, script.Hang())
		var g store.Grant
		assert.Equal(t, time.Second, took(func() {
			g = acquire(limited(t, time.Second), s, "a")
		}), "it may yet answer")
		assert.Equal(t, store.StatusUnknown, g.Status)
		require.ErrorIs(t, g.Err, errDown)
		require.ErrorIs(t, g.Err, context.DeadlineExceeded)
		require.EqualError(t, g.Err, "quorum: acquire: 2 of 3 nodes gave no answer, 2 must agree: "+
			"node 1: connection refused; node 3: context deadline exceeded")
		synctest.Wait()
		requireFree(t, "n", nodes)
		nodes[2].Default(script.Acquire, script.Fail(errDown))
		assert.Zero(t, took(func() {
			g = acquire(limited(t, time.Second), s, "a")
		}), "both have answered")
		require.NotErrorIs(t, g.Err, context.DeadlineExceeded)
		require.NotErrorIs(t, g.Err, renewer.ErrRejected)
		synctest.Wait() // until the second, which granted the lock, has freed it
		nodes[1].Default(script.Acquire, script.Hang())
		assert.Zero(t, took(func() {
			g = acquire(limited(t, time.Second), s, "a")
		}), "the third can't help")
		require.ErrorContains(t, g.Err, "node 2: no answer yet")

		for _, node := range nodes {
			node.Default(script.Acquire, script.Pass())
		}
		mustAcquire(t, s, "a")
	})
}

func TestRejectedOnlyIfAMajorityRejects(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Default(script.Acquire, script.Fail(renewer.ErrRejected))
		nodes[1].Default(script.Acquire, script.Fail(errDown))
		g := acquire(t.Context(), s, "a")
		require.ErrorIs(t, g.Err, errDown)
		require.NotErrorIs(t, g.Err, renewer.ErrRejected, "node 2 may come back")
		nodes[1].Default(script.Acquire, script.Fail(renewer.ErrRejected))
		require.ErrorIs(t, acquire(t.Context(), s, "b").Err, renewer.ErrRejected)
	})
}

// The owner on two of three nodes has it, though the third does not say so
// soon, or says otherwise.
func TestTakenIsKnownFromAMajority(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Script(script.Acquire, script.Fail(errDown))
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		g := acquire(t.Context(), s, "b")
		require.Equal(t, store.Grant{
			Status: store.StatusTaken, Holder: claim("n", "a").Holder,
			HeldFor: time.Second, TTL: ttl - time.Second,
		}, g)
		synctest.Wait()
		assert.Equal(t, "-aa", owners("n", nodes), "what it got is given back at once")
		nodes[1].Default(script.Acquire, script.Fail(errDown))
		g = acquire(t.Context(), s, "b")
		require.Equal(t, store.StatusTaken, g.Status,
			"one of three has been had for long, and one does not answer")
		assert.Equal(t, ttl-time.Second, g.TTL)
		// what it got is given back; while that is under way, two of three
		// nodes could not be asked
		synctest.Wait()
		nodes[1].Default(script.Acquire, script.Hang())
		d := took(func() { g = acquire(limited(t, 5*time.Second), s, "b") })
		require.Equal(t, store.StatusTaken, g.Status)
		assert.Equal(t, 5*time.Millisecond, d,
			"a node that hangs is not waited for while another owner contends")
	})
}

// A caller whose time is up while its token must be raised has not seen anybody
// else.
func TestTimeIsUpWithATokenTooLow(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		propose(t, nodes[0], claim("n", "x"), time.Now().Add(time.Hour).UnixMicro())
		nodes[0].Delete("n")
		nodes[2].Default(script.Acquire, script.Hang())
		g := acquire(limited(t, time.Millisecond), s, "a")
		assert.Equal(t, store.StatusUnknown, g.Status)
		require.ErrorIs(t, g.Err, context.DeadlineExceeded)
	})
}

// A slow node is waited for as long as its answer may decide between Taken and
// Unknown.
func TestASlowNodeMayTellThatItIsTaken(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		nodes[0].Default(script.Acquire, script.Fail(errDown))
		nodes[1].Default(script.Acquire, script.Pass().Late(100*time.Millisecond))
		var g store.Grant
		assert.Equal(t, 100*time.Millisecond, took(func() {
			g = acquire(limited(t, time.Second), s, "b")
		}))
		require.Equal(t, store.StatusTaken, g.Status)
	})
}

// The TTL told is when so many of the holder's nodes have lapsed that the rest
// are too few.
func TestTTLOfTheFirstThatMakesAMajority(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for i, left := range []time.Duration{8 * time.Second, 3 * time.Second} {
			nodes[i].Overwrite("n", store.Holder{Node: "x"}, left)
		}
		nodes[2].Default(script.Acquire, script.Hang())
		assert.Equal(t, store.Grant{
			Status: store.StatusTaken, Holder: store.Holder{Node: "x"},
			TTL: 3 * time.Second,
		}, acquire(t.Context(), s, "a"))
	})
}

// A claim repeated by the holder that fails leaves the lease as it was.
func TestARepeatedClaimThatFailsFreesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		fence := mustAcquire(t, s, "a")
		synctest.Wait()
		for _, node := range nodes[:2] {
			node.Script(script.Acquire, script.Fail(errDown))
		}
		require.Equal(t, store.StatusUnknown, acquire(t.Context(), s, "a").Status)
		waitFor(time.Second)
		assert.Equal(t, "aaa", owners("n", nodes))
		assert.Equal(t, fence, mustAcquire(t, s, "a"), "and the same grant")
		synctest.Wait()
		assert.Equal(t, confirmed, renew(t.Context(), s, "a"))
	})
}

func TestTokenRaisedAboveTheHighestCounter(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		// Another program's clock is ahead by a second, and by an hour for one
		// name.
		ahead := time.Now().Add(time.Second).UnixMicro()
		far := time.Now().Add(time.Hour).UnixMicro()
		for i, node := range nodes {
			propose(t, node, claim("n", "z"), ahead+int64(i))
			propose(t, node, claim("far", "z"), far)
			node.Release(t.Context(), []store.Hold{hold("n", "z"), hold("far", "z")})
		}
		assert.Equal(t, far+1, s.Acquire(t.Context(), []store.Claim{claim("far", "a")})[0].Fence)
		fence := mustAcquire(t, s, "a")
		assert.GreaterOrEqual(t, fence, ahead+2, "above two of the three at least")
		assert.Less(t, fence, far, "one name's counter is no clock")
		other := s.Acquire(t.Context(), []store.Claim{claim("other", "a")})[0]
		assert.Equal(t, fence+1, other.Fence, "a clock that is ahead is remembered")
		synctest.Wait()
		rounds := 0
		for _, c := range nodes[0].Calls(script.Acquire) {
			if c.Claims[0].Name == "n" && c.Claims[0].Owner == owner("a") {
				rounds++
			}
		}
		assert.Equal(t, 2, rounds)
	})
}

func TestCounterAtItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		propose(t, nodes[0], store.Claim{
			Name: "n", Owner: owner("z"), TTL: time.Millisecond,
		}, 1<<63-1)
		waitFor(time.Second)
		g := acquire(t.Context(), s, "a")
		require.ErrorIs(t, g.Err, renewer.ErrRejected)
		require.ErrorContains(t, g.Err, "delete it")
	})
}

// A claim that fails leaves nothing, whatever became of its requests.
func TestFailedAttemptsAreCleanedUp(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][3]script.Step{
		"one granted": {script.Pass(), script.Fail(errDown), script.Fail(errDown)},
		"replies lost": {
			script.Pass().Broken(errDown), script.Pass().Broken(errDown),
			script.Pass(),
		},
		"no replies": {script.Pass().Lost(), script.Pass().Lost(), script.Pass()},
		"late replies": {
			script.Pass().Late(900 * time.Millisecond),
			script.Fail(errDown), script.Fail(errDown),
		},
		"late in effect": {
			script.Pass().Slow(900 * time.Millisecond),
			script.Fail(errDown), script.Fail(errDown),
		},
		"late when all is over": {
			script.Pass().Late(1100 * time.Millisecond), script.Hang(),
			script.Hang(),
		},
		"granted what nobody asked": {script.Granted(7), script.Granted(7), script.Pass()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
				for i, node := range nodes {
					node.Script(script.Acquire, steps[i])
				}
				g := acquire(limited(t, time.Second), s, "a")
				require.Equal(t, store.StatusUnknown, g.Status)
				waitFor(1200 * time.Millisecond)
				requireFree(t, "n", nodes)
				waitFor(time.Minute)
				assert.Zero(t, quorum.Known(s), "nothing is remembered")
				assert.Zero(t, quorum.Planned(s))
			})
		})
	}
}

// A request that was not answered may yet take effect, until Settle: then it is
// cleaned up behind.
func TestCleanedUpAfterSettle(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].SetSettle(4 * time.Second)
		assert.Equal(t, 4*time.Second, s.Settle())
		nodes[0].Script(script.Acquire, script.Fail(errDown))
		mustAcquire(t, s, "z")
		begun := time.Now()
		nodes[0].Script(script.Acquire, script.Fail(errDown))
		// so that the failure is known when the others have refused
		for _, node := range nodes[1:] {
			node.Script(script.Acquire, script.Pass().Late(time.Millisecond))
		}
		require.Equal(t, store.StatusTaken, acquire(t.Context(), s, "a").Status)
		waitFor(time.Second - time.Millisecond)
		// as if it had been on its way
		nodes[0].Acquire(t.Context(), []store.Claim{claim("n", "a")})
		require.Equal(t, "azz", owners("n", nodes))
		waitFor(3*time.Second - 1)
		require.Equal(t, "azz", owners("n", nodes))
		waitFor(1)
		synctest.Wait()
		require.Equal(t, "-zz", owners("n", nodes))
		var at []time.Duration
		for _, c := range nodes[0].Calls(script.Release) {
			at = append(at, c.At.Sub(begun))
		}
		assert.Equal(t, []time.Duration{time.Millisecond, 4 * time.Second}, at,
			"at once, and when it can't take effect any longer")
	})
}

// A release without an answer may yet free what the same owner's next
// attempt takes: until Settle that node does not count.
func TestAnUnansweredReleaseBarsItsNode(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, node := range nodes[:2] {
			node.SetSettle(4 * time.Second)
			node.Script(script.Release, script.Fail(errDown))
		}
		mustAcquire(t, s, "a")
		synctest.Wait() // the third answer too
		require.Equal(t, store.StatusUnknown, release(limited(t, time.Second), s, "a").Status)
		g := acquire(limited(t, time.Second), s, "a")
		require.Equal(t, store.StatusUnknown, g.Status)
		require.ErrorContains(t, g.Err, "still being freed")
		require.Len(t, nodes[0].Calls(script.Acquire), 1, "it is not asked")
		waitFor(4 * time.Second)
		mustAcquire(t, s, "a")
		waitFor(time.Second)
		assert.Equal(t, "aaa", owners("n", nodes), "no late release frees it")
	})
}

// miscounting gives an answer more than it was asked for.
type miscounting struct{ contract.Proposer }

func (m miscounting) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	return append(m.Proposer.Propose(ctx, proposals), store.Grant{})
}

func (m miscounting) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return append(m.Proposer.Renew(ctx, holds), store.Answer{})
}

// An acquire whose time is over before a node was asked is no grant.
func TestTimeIsUpBeforeAnythingIsAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		for _, node := range nodes {
			node.Script(script.Release, script.Hang())
		}
		go release(limited(t, time.Second), s, "a")
		waitFor(time.Millisecond)
		asked := len(nodes[0].Calls(script.Acquire))
		g := acquire(limited(t, time.Millisecond), s, "a")
		assert.Equal(t, store.StatusUnknown, g.Status)
		require.ErrorIs(t, g.Err, context.DeadlineExceeded)
		assert.Len(t, nodes[0].Calls(script.Acquire), asked, "nothing was asked")
	})
}
