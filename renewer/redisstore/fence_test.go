package redisstore_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	internal "github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// given takes a lock with a token that is given.
func given(t testing.TB, s *redisstore.Engine, c contract.Claim, fence int64) {
	t.Helper()
	grants := s.Propose(t.Context(), []internal.Proposal{{Claim: c, Fence: fence}})
	require.Equal(t, []contract.Grant{{Status: contract.StatusHeld, Fence: fence}}, grants)
}

// A token that Lua would round is refused, and takes no lock.
func TestATokenThatIsTooHigh(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	for _, fence := range []int64{redisstore.MaxExact, redisstore.MaxExact + 1, math.MaxInt64} {
		grants := store.Propose(t.Context(), []internal.Proposal{
			{Claim: claim("a", "a", time.Minute), Fence: fence},
		})
		rejected(t, grants[0], strconv.FormatInt(fence, 10), "give a lower one")
	}
	assert.Zero(t, s.number(t, "DBSIZE"))
}

// turn takes and frees a lock, and returns the token.
func turn(t testing.TB, s contract.Store, name, letter string) int64 {
	t.Helper()
	fence := mine(t, s, claim(name, letter, time.Minute))
	require.Equal(t, contract.StatusHeld, release(t, s, hold(name, letter, 0)).Status)
	return fence
}

func TestFenceFollowsTheClock(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	fence := turn(t, store, "a", "a")
	assert.InDelta(t, time.Now().UnixMicro(), fence, float64(time.Minute.Microseconds()))
}

func TestFenceSurvivesFlushAll(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	last := int64(0)
	for range 20 {
		fence := mine(t, store, claim("a", "a", time.Minute))
		require.Greater(t, fence, last)
		last = fence
		s.ok(t, "FLUSHALL")
	}
}

// counters are the keys from which a token of lock a is picked: of the name,
// and of the server.
func counters() map[string]string {
	_, given := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	return map[string]string{
		"given": given, "mark": redisstore.MarkKey(redisstore.DefaultPrefix),
	}
}

func TestFenceCounterAheadOfTheClock(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store, mark := s.store(t), redisstore.MarkKey(redisstore.DefaultPrefix)
	for _, counter := range counters() {
		for _, last := range []int64{8e15, redisstore.MaxExact - 2, redisstore.MaxExact - 1} {
			s.ok(t, "FLUSHALL")
			s.ok(t, "SET", counter, strconv.FormatInt(last, 10))
			assert.Equal(t, last+1, turn(t, store, "a", "a"))
			assert.Equal(t, strconv.FormatInt(last+1, 10), s.get(t, counter), "to the last digit")
			if counter == mark && last < redisstore.MaxExact-1 {
				assert.Equal(t, last+2, turn(t, store, "b", "a"), "of all names")
			}
		}
	}
}

// A mark that is ahead of the clock lasts as much longer: or it would be gone
// before the clock is there.
func TestTheMarkOutlivesTheClockSetBack(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store, mark := s.store(t, redisstore.FenceTTL(time.Hour)),
		redisstore.MarkKey(redisstore.DefaultPrefix)
	ahead := time.Now().Add(2 * time.Hour).UnixMicro()
	s.ok(t, "SET", mark, strconv.FormatInt(ahead, 10), "PX", "1000")
	assert.Equal(t, ahead+1, turn(t, store, "a", "a"))
	s.pttl(t, mark, 3*60*minute-minute, 3*60*minute)
}

func TestFenceCounterDamaged(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	last := turn(t, store, "a", "a")
	lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	for _, counter := range counters() {
		for _, damage := range []string{
			"", "x", "-5", "1e3", "0x10", " 7", "7 ", "7.5", "nan", "inf", "7\n",
			strconv.FormatInt(redisstore.MaxExact, 10), strconv.FormatInt(redisstore.MaxExact+1, 10),
			"9999999999999999", "99999999999999999999999",
		} {
			s.ok(t, "SET", counter, damage)
			rejected(t, acquire(t, store, claim("a", "a", time.Minute)),
				counter+" is no number", "delete the key")
			assert.Zero(t, s.number(t, "EXISTS", lease), "%q", damage)
			s.ok(t, "DEL", counter)
			next := turn(t, store, "a", "a")
			assert.Greater(t, next, last)
			last = next
		}
		for _, low := range []string{"0", "7", "007"} {
			s.ok(t, "SET", counter, low)
			next := turn(t, store, "a", "a")
			assert.Greater(t, next, last, "the clock is ahead of %q", low)
			last = next
		}
		s.ok(t, "DEL", counter)
	}
}

// No key is ever without a TTL, whatever the order of events.
func TestEveryKeyHasATTL(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	// A counter of given tokens that would lapse before its lease does is
	// kept as long as that.
	store := s.store(t, redisstore.FenceTTL(30*time.Second))
	for i := range 10 {
		name := fmt.Sprint("job ", i)
		c := claim(name, "a", time.Minute)
		_, counter := redisstore.LockKeys(redisstore.DefaultPrefix, name)
		if i%3 == 2 {
			given(t, store, c, 8e15)
		} else {
			mine(t, store, c)
		}
		acquire(t, store, claim(name, "b", time.Minute))
		renew(t, store, hold(name, "a", 2*time.Minute))
		renew(t, store, hold(name, "b", time.Minute))
		renew(t, store, hold("not "+name, "a", time.Minute))
		if i%3 == 2 {
			s.pttl(t, counter, minute-5000, minute)
		}
		if i%2 == 0 {
			release(t, store, hold(name, "a", 0))
			release(t, store, hold(name, "a", 0))
		}
	}
	keys, err := s.do(t, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.Len(t, keys, 5+3+1, "leases, counters, and the server's")
	for _, key := range keys {
		assert.Positive(t, s.number(t, "PTTL", key), key)
	}
}

// The counter of one name that has run ahead of the clock, as another server's
// may have, raises the tokens of no other name.
func TestOneNameAheadOfTheClockLeavesTheOthers(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	before := turn(t, store, "b", "a")
	_, given := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	last := int64(redisstore.MaxExact - 20)
	s.ok(t, "SET", given, strconv.FormatInt(last, 10), "PX", "60000")
	for range 5 {
		fence := turn(t, store, "a", "a")
		require.Greater(t, fence, last)
		last = fence
		next := turn(t, store, "b", "a")
		assert.Greater(t, next, before)
		assert.Less(t, next, time.Now().Add(time.Minute).UnixMicro())
		before = next
	}
}

// A grant reserves tokens up to 10 ms ahead of the server's clock, which the
// mark keeps, to the last digit; nobody else's are below. So they are as many
// as microseconds have passed.
func TestReservedTokens(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store, mark := s.store(t), redisstore.MarkKey(redisstore.DefaultPrefix)
	waits := func(name string) contract.Claim {
		c := claim(name, "a", time.Minute)
		c.Place = 1
		return c
	}
	g := acquire(t, store, waits("a"))
	require.Equal(t, contract.MaxReserved, g.Reserved, "nothing was granted before")
	assert.Equal(t, strconv.FormatInt(g.Fence+contract.MaxReserved, 10), s.get(t, mark))
	again := acquire(t, store, waits("a"))
	assert.Equal(t, contract.Grant{Status: contract.StatusHeld, Fence: g.Fence}, again)
	alone := acquire(t, store, claim("b", "a", time.Minute))
	assert.Equal(t, contract.Grant{Status: contract.StatusHeld, Fence: alone.Fence}, alone)
	assert.Greater(t, alone.Fence, g.Fence+contract.MaxReserved)
	s.ok(t, "SET", mark, "8000000000000000")
	far := acquire(t, store, waits("c"))
	assert.Equal(t, contract.Grant{Status: contract.StatusHeld, Fence: 8e15 + 1}, far,
		"none further ahead of the clock")
}
