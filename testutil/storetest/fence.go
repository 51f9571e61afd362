package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var fenceCases = []testCase{
	{"fencing tokens rise over releases", fenceOverReleases},
	{"fencing tokens rise over lapses", fenceOverLapses},
	{"fencing tokens rise over interference", fenceOverInterference},
	{"fencing tokens of two names rise", fenceOverNames},
	{"no other owner gets a reserved token", reservedTokens},
	{"tokens don't run ahead of the clock", tokensByTheClock},
	{"a token proposed is granted above the counter only", proposed(proposedToken)},
	{"an owner may raise its token", proposed(raisedToken)},
	{"proposals for different names don't meet", proposed(proposalsApart)},
	{"a proposal that was freed bars none for another name", proposed(proposalFreed)},
	{"grants of other names bar no proposal for long", proposed(proposalAmongGrants)},
	{"tokens reserved above one proposed", proposed(reservedAboveProposal)},
	{"a batch of proposals is answered in order", proposed(proposalsInBatch)},
}

// proposerSuite is a suite on a [contract.Proposer].
type proposerSuite struct {
	*suite
	proposer contract.Proposer
}

// proposed is a case of a [contract.Proposer]. It passes without proving
// anything for other stores.
func proposed(run func(*testing.T, *proposerSuite)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		if proposer, ok := s.Store.(contract.Proposer); ok {
			run(t, &proposerSuite{s, proposer})
		}
	}
}

// propose asks for name with a token, which must be free or owner's.
func (s *proposerSuite) propose(
	t testing.TB, name, owner string, fence int64, ttl time.Duration,
) store.Grant {
	t.Helper()
	return s.proposeAll(t, contract.Proposal{
		Claim: store.Claim{Name: name, Owner: owner, TTL: ttl}, Fence: fence,
	})[0]
}

func (s *proposerSuite) proposeAll(t testing.TB, proposals ...contract.Proposal) []store.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.proposer.Propose(ctx, proposals)
	require.Len(t, grants, len(proposals))
	for _, g := range grants {
		require.NoError(t, g.Err)
	}
	return grants
}

func proposedToken(t *testing.T, s *proposerSuite) {
	picked := s.own(t, "name", newOwner(), s.short)
	s.wait(t, s.short+10*time.Millisecond)

	a, b := newOwner(), newOwner()
	for _, low := range []int64{1, max(picked-1, 1), picked} {
		g := s.propose(t, "name", a, low, long)
		requireStatus(t, store.StatusBehind, g.Status,
			"token %d, not above the %d granted before", low, picked)
		require.GreaterOrEqual(t, g.Fence, picked, "the counter")
		require.LessOrEqual(t, g.Fence, picked+store.MaxReserved)
	}
	assertStatus(t, store.StatusGone, s.release(t, "name", a), "a proposal refused has no effect")
	high := picked + 2*store.MaxReserved
	granted := store.Grant{Status: store.StatusHeld, Fence: high}
	requireGrant(t, granted, s.propose(t, "name", a, high, long), "a token above the counter")
	requireGrant(t, granted, s.propose(t, "name", a, high, long), "the same token again")
	require.Equal(t, high, s.own(t, "name", a, long), "nothing proposed: the token it has")
	requireStatus(t, store.StatusTaken, s.propose(t, "name", b, high+1, long).Status)
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	requireGrant(t, store.Grant{Status: store.StatusBehind, Fence: high},
		s.propose(t, "name", b, high, long), "another owner's token")
	requireStatus(t, store.StatusHeld, s.propose(t, "name", b, high+2, long).Status)
	requireStatus(t, store.StatusHeld, s.release(t, "name", b))
	require.Greater(t, s.own(t, "name", a, long), high+2, "a picked one is above what was proposed")
}

// raisedToken is for a proposer whose token was refused elsewhere.
func raisedToken(t *testing.T, s *proposerSuite) {
	const first = int64(1) << 51
	a, b := newOwner(), newOwner()
	requireStatus(t, store.StatusHeld, s.propose(t, "name", a, first, long).Status)
	requireGrant(t, store.Grant{Status: store.StatusBehind, Fence: first},
		s.propose(t, "name", a, first-1, long), "a lower token than the owner has")
	requireGrant(t, store.Grant{Status: store.StatusHeld, Fence: first + 5},
		s.propose(t, "name", a, first+5, s.short), "a higher token than the owner has")
	s.wait(t, s.short+10*time.Millisecond)
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, long), "the TTL was not shortened")
	require.Equal(t, first+5, s.own(t, "name", a, long))
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	requireStatus(t, store.StatusBehind, s.propose(t, "name", b, first+5, long).Status)
}

// reserve gets a name from a place, so that tokens may be reserved.
func (s *suite) reserve(t testing.TB, name, owner string) store.Grant {
	t.Helper()
	g := s.acquireAll(t, []store.Claim{{Name: name, Owner: owner, TTL: long, Place: 1}})[0]
	requireStatus(t, store.StatusHeld, g.Status)
	return g
}

func tokensByTheClock(t *testing.T, s *suite) {
	// a clock's microseconds since 1970 are above this, counters from 1 on are
	// below
	const clocked = 1 << 49
	const n = 100
	begun := time.Now()
	first, last := s.own(t, "other", newOwner(), long), int64(0)
	for range n {
		owner := newOwner()
		g := s.reserve(t, "name", owner)
		last = g.Fence + int64(g.Reserved)
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	}
	if first > clocked {
		require.LessOrEqual(t, last, first+time.Since(begun).Microseconds()+2*store.MaxReserved+n)
	}
}

func reservedTokens(t *testing.T, s *suite) {
	var last int64
	reserved := 0
	for range 50 {
		owner := newOwner()
		g := s.reserve(t, "name", owner)
		require.Greater(t, g.Fence, last)
		last = g.Fence + int64(g.Reserved)
		reserved += g.Reserved
		again := s.reserve(t, "name", owner)
		require.Equal(t, g.Fence, again.Fence, "the same grant")
		require.LessOrEqual(t, again.Reserved, g.Reserved)
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	}
	require.Greater(t, s.own(t, "name", newOwner(), long), last)
	if s.Reserves {
		require.Positive(t, reserved)
	}
}

func reservedAboveProposal(t *testing.T, s *proposerSuite) {
	const first = int64(1) << 51
	a, b := newOwner(), newOwner()
	proposal := contract.Proposal{
		Claim: store.Claim{Name: "name", Owner: a, TTL: long}, Fence: first, Reserve: 10,
	}
	requireGrant(t, store.Grant{Status: store.StatusHeld, Fence: first, Reserved: 10},
		s.proposeAll(t, proposal)[0])
	require.Equal(t, first, s.proposeAll(t, proposal)[0].Fence, "the same token again")
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	requireGrant(t, store.Grant{Status: store.StatusBehind, Fence: first + 10},
		s.propose(t, "name", b, first+10, long))
	requireStatus(t, store.StatusHeld, s.propose(t, "name", b, first+11, long).Status)
	requireStatus(t, store.StatusHeld, s.release(t, "name", b))
	require.Greater(t, s.own(t, "name", a, long), first+11, "one picked is above those proposed")
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	requireStatus(t, store.StatusBehind, s.propose(t, "name", b, first+12, long).Status,
		"one proposed is above those picked")
}

func proposalsInBatch(t *testing.T, s *proposerSuite) {
	proposals := make([]contract.Proposal, 20)
	for i := range proposals {
		proposals[i] = contract.Proposal{
			Claim: store.Claim{Name: fmt.Sprint("name-", i), Owner: newOwner(), TTL: long},
			Fence: 1<<51 + int64(i),
		}
	}
	for i, g := range s.proposeAll(t, proposals...) {
		requireGrant(t, store.Grant{Status: store.StatusHeld, Fence: proposals[i].Fence}, g)
	}
	require.Empty(t, s.proposeAll(t))
}

// proposalsApart proposes for a hundred names, the later ones with lower
// tokens.
func proposalsApart(t *testing.T, s *proposerSuite) {
	const top = int64(1) << 50
	for i := range int64(100) {
		name := fmt.Sprint("name-", i)
		requireGrant(t, store.Grant{Status: store.StatusHeld, Fence: top - i},
			s.propose(t, name, newOwner(), top-i, long),
			"%q is free; another name has a higher token", name)
	}
}

// proposalFreed is for a store that remembers tokens once their lease has gone:
// as those of their own name, while names are few.
func proposalFreed(t *testing.T, s *proposerSuite) {
	const top = int64(1) << 50
	owner := newOwner()
	requireStatus(t, store.StatusHeld, s.propose(t, "name", owner, top, long).Status)
	requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	requireGrant(t, store.Grant{Status: store.StatusHeld, Fence: top - 1},
		s.propose(t, "other", newOwner(), top-1, long), "for another name")
	requireGrant(t, store.Grant{Status: store.StatusBehind, Fence: top},
		s.propose(t, "name", newOwner(), top, long), "of its own name")
}

// fenceOverNames takes turns of two names: tokens of each rise, whether or not
// those of the other count.
func fenceOverNames(t *testing.T, s *suite) {
	last := map[string]int64{}
	for i := range 100 {
		name := [...]string{"name", "other"}[i%3/2]
		owner := newOwner()
		g := s.reserve(t, name, owner)
		require.Greater(t, g.Fence, last[name])
		last[name] = g.Fence + int64(g.Reserved)
		requireStatus(t, store.StatusHeld, s.release(t, name, owner))
	}
}

// proposalAmongGrants is for a store that keeps one mark for all names: a token
// that is not above it may be refused, but not the next one, though other names
// go on.
func proposalAmongGrants(t *testing.T, s *proposerSuite) {
	s.own(t, "busy", newOwner(), long)
	owner := newOwner()
	g := s.propose(t, "name", owner, 1, long)
	if g.Status == store.StatusBehind {
		s.own(t, "busier", newOwner(), long)
		// By the clock, as a quorum proposes: above what others were granted
		// since.
		g = s.propose(t, "name", owner, g.Fence+int64(time.Second/time.Microsecond), long)
	}
	requireStatus(t, store.StatusHeld, g.Status)
	first := g.Fence
	requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	for i := range int64(10) {
		s.cycle(t, fmt.Sprint("busy-", i))
		owner := newOwner()
		g := s.propose(t, "name", owner, first+1, long)
		if g.Status == store.StatusBehind {
			g = s.propose(t, "name", owner, g.Fence+int64(time.Second/time.Microsecond), long)
		}
		requireStatus(t, store.StatusHeld, g.Status)
		require.Greater(t, g.Fence, first)
		first = g.Fence
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	}
}

func fenceOverReleases(t *testing.T, s *suite) {
	var last int64
	for range 200 { // fast enough to fall into one microsecond now and then
		owner := newOwner()
		fence := s.own(t, "name", owner, long)
		require.Greater(t, fence, last, "the fencing token of a later grant")
		last = fence
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	}
}

func fenceOverLapses(t *testing.T, s *suite) {
	const ttl = 20 * time.Millisecond
	same := newOwner()
	var last int64
	for i := range 6 {
		owner := same
		if i%2 == 0 {
			owner = newOwner()
		}
		fence := s.own(t, "name", owner, ttl)
		assert.Greater(t, fence, last, "a new grant, even to an owner that had the name before")
		last = fence
		s.wait(t, ttl+10*time.Millisecond)
	}
}

func fenceOverInterference(t *testing.T, s *suite) {
	var last int64
	for range 3 {
		fence := s.own(t, "name", newOwner(), long)
		assert.Greater(t, fence, last, "the fencing token of a later grant")
		last = fence
		if s.Delete == nil {
			return
		}
		s.Delete("name")
		if s.Overwrite != nil {
			s.Overwrite("name")
			s.Delete("name")
		}
	}
}
