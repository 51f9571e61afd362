package quorum_test

import (
	"context"
	"fmt"
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

func TestBatchesAreOneCallANode(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		claims := []store.Claim{claim("1", "a"), claim("2", "a"), claim("3", "a")}
		for _, g := range s.Acquire(t.Context(), claims) {
			require.Equal(t, store.StatusHeld, g.Status)
		}
		// the third answer too: what is still under way when it is freed is
		// freed again
		synctest.Wait()
		holds := []store.Hold{hold("1", "a"), hold("2", "a"), hold("3", "a")}
		s.Renew(t.Context(), holds)
		synctest.Wait()
		s.Release(t.Context(), holds)
		synctest.Wait()
		for _, node := range nodes {
			for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
				assert.Len(t, node.Calls(op), 1, op)
			}
		}
	})
}

func TestANodeThatMiscounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, all := scripted(3)
		all[1] = miscounting{all[1].(contract.Proposer)}
		s, err := quorum.NewEngine(all)
		require.NoError(t, err)
		mustAcquire(t, s, "a")
		assert.Equal(t, confirmed, renew(t.Context(), s, "a"))
		all[2] = miscounting{all[2].(contract.Proposer)}
		s, err = quorum.NewEngine(all)
		require.NoError(t, err)
		require.ErrorContains(t, renew(t.Context(), s, "a").Err,
			"node 2: it gave an answer that no store may give: 2 answers to 1 questions")
		require.Equal(t, store.StatusUnknown, acquire(t.Context(), s, "a").Status)
		waitFor(time.Minute)
	})
}

// What the caller does to its slices afterwards reaches no slow node.
func TestItemsAreTheCallersAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
			nodes[2].Default(op, script.Pass().Slow(time.Second))
		}
		claims := []store.Claim{claim("n", "a")}
		grants := s.Acquire(t.Context(), claims)
		claims[0], grants[0] = store.Claim{}, store.Grant{}
		waitFor(2 * time.Second)
		require.Equal(t, "aaa", owners("n", nodes))
		holds := []store.Hold{hold("n", "a")}
		s.Renew(t.Context(), holds)[0] = store.Answer{}
		holds[0] = store.Hold{}
		waitFor(2 * time.Second)
		holds[0] = hold("n", "a")
		s.Release(t.Context(), holds)[0] = store.Answer{}
		holds[0] = store.Hold{}
		waitFor(2 * time.Second)
		requireFree(t, "n", nodes)
	})
}

// A node that hangs for long costs a bounded number of goroutines,
// and is asked again when it is back.
func TestAHungNodeIsSpared(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		nodes[0].Default(script.Acquire, script.Hang())
		nodes[0].Default(script.Release, script.Hang())
		for i := range 2 * quorum.MaxLate {
			owner := fmt.Sprintf("%0*d", store.OwnerLen, i)
			grants := s.Acquire(t.Context(), []store.Claim{{Name: "n", Owner: owner, TTL: ttl}})
			require.Equal(t, store.StatusHeld, grants[0].Status)
			answers := s.Release(t.Context(), []store.Hold{{Name: "n", Owner: owner}})
			require.Equal(t, store.StatusHeld, answers[0].Status)
		}
		assert.EqualValues(t, 2*quorum.MaxLate, quorum.Late(s, 0),
			"heartbeats and releases are counted apart from a crowd's acquires")
		nodes[0].Default(script.Acquire, script.Pass())
		nodes[0].Default(script.Release, script.Pass())
		waitFor(time.Minute)
		assert.Zero(t, quorum.Late(s, 0))
		mustAcquire(t, s, "a")
		synctest.Wait()
		assert.Equal(t, "aaa", owners("n", nodes))
	})
}

// unreserving is a node that reserves no tokens.
type unreserving struct{ contract.Proposer }

func (u unreserving) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	grants := u.Proposer.Propose(ctx, proposals)
	for i := range grants {
		grants[i].Reserved = 0
	}
	return grants
}

// Tokens that too few nodes have passed over may be granted to the next owner:
// they are not ours.
func TestTokensReservedByTooFewNodesAreNone(t *testing.T) {
	t.Parallel()
	for _, few := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			_, all := scripted(3)
			for i := range few {
				all[i] = unreserving{all[i].(contract.Proposer)}
			}
			s, err := quorum.NewEngine(all)
			require.NoError(t, err)
			c := claim("n", "a")
			c.Place = 1
			g := s.Acquire(t.Context(), []store.Claim{c})[0]
			require.Equal(t, store.StatusHeld, g.Status)
			require.Equal(t, few == 0, g.Reserved > 0, "%d", g.Reserved)
			waitFor(time.Minute)
		})
	}
}
