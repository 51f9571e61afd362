package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

var fenceCases = []testCase{
	{"fencing tokens rise over releases", fenceOverReleases},
	{"fencing tokens rise over lapses", fenceOverLapses},
	{"fencing tokens rise over interference", fenceOverInterference},
	{"a token proposed is granted above the counter only", proposedToken},
	{"an owner may raise its token", raisedToken},
	{"proposals for different names don't meet", proposalsApart},
	{"a proposal that was freed bars none for another name", proposalFreed},
	{"fencing tokens of two names rise", fenceOverNames},
	{"grants of other names bar no proposal for long", proposalAmongGrants},
	{"no other owner gets a reserved token", reservedTokens},
	{"tokens reserved above one proposed", reservedAboveProposal},
	{"tokens reserved and not used are given back", tokensGivenBack},
	{"tokens that are never given back don't add up", tokensNotGivenBack},
}

// propose asks for name with a token, which must be free or owner's.
func (s *suite) propose(
	t testing.TB, name, owner string, fence int64, ttl time.Duration,
) renewer.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx,
		[]renewer.Claim{{Name: name, Owner: owner, TTL: ttl, Fence: fence}})
	require.Len(t, grants, 1)
	require.NoError(t, grants[0].Err)
	return grants[0]
}

func proposedToken(t *testing.T, s *suite) {
	picked := s.own(t, "name", newOwner(), s.short)
	s.wait(t, s.short+10*time.Millisecond)

	a, b := newOwner(), newOwner()
	for _, low := range []int64{1, max(picked-1, 1), picked} {
		g := s.propose(t, "name", a, low, long)
		requireStatus(t, renewer.StatusBehind, g.Status,
			"token %d, not above the %d granted before", low, picked)
		require.GreaterOrEqual(t, g.Fence, picked, "the counter")
		require.Less(t, g.Fence, picked+1000,
			"of several nodes one may have picked a higher one, but not by much")
	}
	assertStatus(t, renewer.StatusGone, s.release(t, "name", a), "a proposal refused has no effect")
	high := picked + 1000
	granted := renewer.Grant{Status: renewer.StatusHeld, Fence: high}
	requireGrant(t, granted, s.propose(t, "name", a, high, long), "a token above the counter")
	requireGrant(t, granted, s.propose(t, "name", a, high, long), "the same token again")
	require.Equal(t, high, s.own(t, "name", a, long), "nothing proposed: the token it has")
	requireStatus(t, renewer.StatusTaken, s.propose(t, "name", b, high+1, long).Status)
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", a))
	behind := s.propose(t, "name", b, high, long)
	requireStatus(t, renewer.StatusBehind, behind.Status, "another owner's token")
	require.GreaterOrEqual(t, behind.Fence, high)
	require.LessOrEqual(t, behind.Fence, high+1,
		"one of several nodes may have granted what most have refused, before the first came there")
	requireStatus(t, renewer.StatusHeld, s.propose(t, "name", b, high+2, long).Status)
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", b))
	require.Greater(t, s.own(t, "name", a, long), high+2, "a picked one is above what was proposed")
}

// raisedToken is for a proposer whose token was refused elsewhere.
func raisedToken(t *testing.T, s *suite) {
	const first = int64(1) << 51
	a, b := newOwner(), newOwner()
	requireStatus(t, renewer.StatusHeld, s.propose(t, "name", a, first, long).Status)
	requireGrant(t, renewer.Grant{Status: renewer.StatusBehind, Fence: first},
		s.propose(t, "name", a, first-1, long), "a lower token than the owner has")
	requireGrant(t, renewer.Grant{Status: renewer.StatusHeld, Fence: first + 5},
		s.propose(t, "name", a, first+5, s.short), "a higher token than the owner has")
	s.wait(t, s.short+10*time.Millisecond)
	requireStatus(t, renewer.StatusHeld, s.renew(t, "name", a, long), "the TTL was not shortened")
	require.Equal(t, first+5, s.own(t, "name", a, long))
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", a))
	requireStatus(t, renewer.StatusBehind, s.propose(t, "name", b, first+5, long).Status)
}

// reserve asks for a name, "name" unless another is given, and for more tokens. A store need not
// grant these.
func (s *suite) reserve(
	t testing.TB, owner string, fence int64, n int, names ...string,
) renewer.Grant {
	t.Helper()
	name := append(names, "name")[0]
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	grants := s.Store.Acquire(ctx, []renewer.Claim{{
		Name: name, Owner: owner, TTL: long, Fence: fence, Reserve: n,
		// a quorum needs it to know a lock that is held from one that is being freed
		Holder: renewer.Holder{Node: "node"},
	}})
	require.Len(t, grants, 1)
	require.NoError(t, grants[0].Err)
	requireStatus(t, renewer.StatusHeld, grants[0].Status)
	require.GreaterOrEqual(t, grants[0].Reserved, 0)
	require.LessOrEqual(t, grants[0].Reserved, n)
	return grants[0]
}

// ahead is so many tokens that a clock needs a minute to reach them.
const ahead = int(time.Minute / time.Microsecond)

// giveBack releases a name, and gives the tokens above used back.
func (s *suite) giveBack(
	t testing.TB, owner string, used int64, names ...string,
) renewer.Status {
	t.Helper()
	hold := renewer.Hold{Name: append(names, "name")[0], Owner: owner, Used: used}
	return s.holds(t, s.Store.Release, []renewer.Hold{hold})[0]
}

func tokensGivenBack(t *testing.T, s *suite) {
	a, b, c := newOwner(), newOwner(), newOwner()
	g := s.reserve(t, a, 0, ahead)
	if g.Reserved == 0 {
		require.False(t, s.Reserves)
		return
	}
	top := g.Fence + int64(g.Reserved)
	requireStatus(t, renewer.StatusHeld, s.giveBack(t, a, g.Fence+3))
	next := s.reserve(t, b, 0, ahead)
	require.Greater(t, next.Fence, g.Fence+3, "three were used")
	if s.Reserves {
		require.Equal(t, ahead, g.Reserved)
		require.Less(t, next.Fence, top, "the others were given back")
	}
	requireStatus(t, renewer.StatusTaken, s.giveBack(t, a, 1),
		"a copy that is late gives nothing back")
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", b))
	last := s.reserve(t, c, 0, ahead)
	require.Greater(t, last.Fence, next.Fence+int64(next.Reserved), "nothing was given back")
	requireStatus(t, renewer.StatusHeld, s.giveBack(t, c, 1), "by one who does not know its token")
	require.Greater(t, s.own(t, "name", a, long), last.Fence, "which was granted all the same")
}

func tokensNotGivenBack(t *testing.T, s *suite) {
	// a clock's microseconds since 1970 are above this, counters from 1 on are below
	const clocked = 1 << 49
	first := s.own(t, "other", newOwner(), long)
	for range 10 {
		owner := newOwner()
		s.reserve(t, owner, 0, ahead)
		requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	}
	if first > clocked {
		require.Less(t, s.own(t, "name", newOwner(), long), first+int64(3*ahead),
			"what one claim wants, and what the test takes")
	}
}

func reservedTokens(t *testing.T, s *suite) {
	var last int64
	for i := range 50 {
		n := i % 10 * 1000 // a thousand tokens take the clock a millisecond
		owner := newOwner()
		g := s.reserve(t, owner, 0, n)
		require.Greater(t, g.Fence, last)
		last = g.Fence + int64(g.Reserved)
		again := s.reserve(t, owner, 0, n)
		require.Equal(t, g.Fence, again.Fence, "the same grant")
		require.LessOrEqual(t, again.Reserved, g.Reserved)
		requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	}
	require.Greater(t, s.own(t, "name", newOwner(), long), last)
}

func reservedAboveProposal(t *testing.T, s *suite) {
	const first = int64(1) << 51
	a, b := newOwner(), newOwner()
	g := s.reserve(t, a, first, 10)
	require.Equal(t, first, g.Fence, "the token proposed")
	if s.Reserves {
		require.Equal(t, 10, g.Reserved)
	}
	top := first + int64(g.Reserved)
	require.Equal(t, first, s.reserve(t, a, first, 10).Fence, "the same token again")
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", a))
	low := s.propose(t, "name", b, top, long)
	requireStatus(t, renewer.StatusBehind, low.Status)
	require.GreaterOrEqual(t, low.Fence, top)
	requireStatus(t, renewer.StatusHeld, s.propose(t, "name", b, low.Fence+1, long).Status)
}

// proposalsApart proposes for a hundred names, the later ones with lower tokens.
func proposalsApart(t *testing.T, s *suite) {
	const top = int64(1) << 50
	for i := range int64(100) {
		name := fmt.Sprint("name-", i)
		requireGrant(t, renewer.Grant{Status: renewer.StatusHeld, Fence: top - i},
			s.propose(t, name, newOwner(), top-i, long),
			"%q is free; another name has a higher token", name)
	}
}

// proposalFreed is for a store that remembers tokens once their lease has gone: as those of their
// own name, while names are few.
func proposalFreed(t *testing.T, s *suite) {
	const top = int64(1) << 50
	owner := newOwner()
	requireStatus(t, renewer.StatusHeld, s.propose(t, "name", owner, top, long).Status)
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	requireGrant(t, renewer.Grant{Status: renewer.StatusHeld, Fence: top - 1},
		s.propose(t, "other", newOwner(), top-1, long), "for another name")
	requireGrant(t, renewer.Grant{Status: renewer.StatusBehind, Fence: top},
		s.propose(t, "name", newOwner(), top, long), "of its own name")
}

// fenceOverNames takes turns of two names: tokens of each rise, whether or not those of the other
// count.
func fenceOverNames(t *testing.T, s *suite) {
	last := map[string]int64{}
	for i := range 100 {
		name := [...]string{"name", "other"}[i%3/2]
		owner := newOwner()
		g := s.reserve(t, owner, 0, i%4*1000, name)
		require.Greater(t, g.Fence, last[name])
		used := g.Fence + int64(g.Reserved/2)
		last[name] = used
		requireStatus(t, renewer.StatusHeld, s.giveBack(t, owner, used, name))
	}
}

// proposalAmongGrants is for a store that keeps one mark for all names: a token that is not above
// it may be refused, but not the next one, though other names go on.
func proposalAmongGrants(t *testing.T, s *suite) {
	s.own(t, "busy", newOwner(), long)
	owner := newOwner()
	g := s.propose(t, "name", owner, 1, long)
	if g.Status == renewer.StatusBehind {
		s.own(t, "busier", newOwner(), long)
		// By the clock, as a quorum proposes: above what others were granted since.
		g = s.propose(t, "name", owner, g.Fence+int64(time.Second/time.Microsecond), long)
	}
	requireStatus(t, renewer.StatusHeld, g.Status)
	first := g.Fence
	requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	for i := range int64(10) {
		s.cycle(t, fmt.Sprint("busy-", i))
		owner := newOwner()
		g := s.propose(t, "name", owner, first+1, long)
		if g.Status == renewer.StatusBehind {
			g = s.propose(t, "name", owner, g.Fence+int64(time.Second/time.Microsecond), long)
		}
		requireStatus(t, renewer.StatusHeld, g.Status)
		require.Greater(t, g.Fence, first)
		first = g.Fence
		requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
	}
}

func fenceOverReleases(t *testing.T, s *suite) {
	var last int64
	for range 200 { // fast enough to fall into one microsecond now and then
		owner := newOwner()
		fence := s.own(t, "name", owner, long)
		require.Greater(t, fence, last, "the fencing token of a later grant")
		last = fence
		requireStatus(t, renewer.StatusHeld, s.release(t, "name", owner))
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
