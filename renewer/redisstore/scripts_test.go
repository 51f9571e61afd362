package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

const minute = int64(60_000) // ms

// pttl requires a TTL between least and most ms.
func (s server) pttl(t testing.TB, key string, least, most int64) {
	t.Helper()
	n := s.number(t, "PTTL", key)
	assert.GreaterOrEqual(t, n, least, "PTTL %s", key)
	assert.LessOrEqual(t, n, most, "PTTL %s", key)
}

func TestAcquireScript(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	lease, counter := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)

	t.Log("free: a token, and both keys with their TTLs")
	first := mine(t, store, claim("a", "a", time.Minute))
	s.pttl(t, lease, minute-5000, minute)
	s.pttl(t, mark, 24*60*minute-5000, 24*60*minute)
	assert.Equal(t, fmt.Sprint(first), s.get(t, mark))
	assert.Equal(t, int64(2), s.number(t, "DBSIZE"), "and none of the name's own beside it")
	lines := strings.Split(s.get(t, lease), "\n")
	require.Len(t, lines, 6)
	assert.Equal(t, []string{owner("a"), fmt.Sprint(first)}, lines[:2])
	assert.Equal(t, []string{"node-a", "42", "test"}, lines[3:])

	t.Log("another's: only that the lock is waited for changes, once")
	before := s.get(t, lease)
	for range 2 {
		assert.Equal(t, contract.StatusTaken, acquire(t, store, claim("a", "b", time.Hour)).Status)
		assert.Equal(t, before+"\n+", s.get(t, lease))
	}

	t.Log("our token before no fence: an error, not a grant")
	s.ok(t, "SET", redisstore.LeaseKey(redisstore.DefaultPrefix, "cut"), owner("a"), "PX",
		"60000")
	rejected(t, acquire(t, store, claim("cut", "a", time.Minute)), "lockbeat:{cut} is damaged")

	t.Log("an owner token of another length: an error")
	short := claim("short", "a", time.Minute)
	short.Owner = "a"
	rejected(t, acquire(t, store, short), "22")

	t.Log("a lease of another type: an error, and the key stays as it is")
	s.ok(t, "RPUSH", redisstore.LeaseKey(redisstore.DefaultPrefix, "list"), "x")
	rejected(t, acquire(t, store, claim("list", "a", time.Minute)), "WRONGTYPE",
		"redisstore.Prefix")
	foreign := contract.Answer{Status: contract.StatusTaken, Foreign: true}
	assert.Equal(t, foreign, release(t, store, hold("list", "a", 0)))
	assert.Equal(t, foreign, renew(t, store, hold("list", "a", time.Minute)))
	assert.Equal(t, int64(1),
		s.number(t, "LLEN", redisstore.LeaseKey(redisstore.DefaultPrefix, "list")))

	t.Log("a counter of another type: none of ours, and the mark sees to it that tokens rise")
	release(t, store, hold("a", "a", 0))
	s.ok(t, "RPUSH", counter, "x")
	assert.Greater(t, mine(t, store, claim("a", "a", time.Minute)), first)
	assert.Equal(t, int64(1), s.number(t, "LLEN", counter))
}

// rejected requires an answer that is StatusUnknown, and will be
// until an operator changes the server.
func rejected(t testing.TB, g contract.Grant, says ...string) {
	t.Helper()
	assert.Equal(t, contract.StatusUnknown, g.Status)
	require.ErrorIs(t, g.Err, renewer.ErrRejected)
	for _, s := range says {
		assert.ErrorContains(t, g.Err, s)
	}
}

func TestRenewScript(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
	mine(t, store, claim("a", "a", time.Minute))
	s.ok(t, "PERSIST", lease)
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold("a", "a", time.Minute)).Status)
	s.pttl(t, lease, minute-5000, minute)

	short := hold("a", "a", time.Hour)
	for _, short.Owner = range []string{short.Owner[:5], ""} { // part of a token is none
		assert.Equal(t, contract.StatusTaken, renew(t, store, short).Status)
		assert.Equal(t, contract.StatusTaken, release(t, store, short).Status)
	}
	s.pttl(t, lease, minute-5000, minute)
}

// What a lock that no other process wants costs the server, in commands: alone,
// and in a batch.
func TestCommandsOfACycle(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	turn(t, store, "makes the mark", "a")
	for n, want := range map[int]map[string]int64{
		1: {"time": 1, "mget": 1, "get": 1, "set": 2, "del": 1, "publish": 0, "zpopmin": 0},
		9: {"time": 1, "mget": 2, "get": 0, "set": 10, "del": 9, "publish": 0, "exists": 0},
	} {
		claims, holds := make([]contract.Claim, n), make([]contract.Hold, n)
		for i := range n {
			claims[i] = claimOf(fmt.Sprint("name ", i), i)
			holds[i] = contract.Hold{Name: claims[i].Name, Owner: claims[i].Owner}
		}
		s.ok(t, "CONFIG", "RESETSTAT")
		for _, g := range store.Acquire(t.Context(), claims) {
			require.Equal(t, contract.StatusHeld, g.Status, g.Err)
		}
		for _, a := range store.Release(t.Context(), holds) {
			require.Equal(t, contract.StatusHeld, a.Status, a.Err)
		}
		for command, times := range want {
			assert.Equal(t, times, calls(t, s, command), "%s, of %d", command, n)
		}
	}
}

// Batches above what a script takes, with TTLs that change along the
// way, are split and answered in order.
func TestBatchesAreSplit(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	store := s.store(t)
	const n = 3*redisstore.MaxKeys + 7
	claims, holds := make([]contract.Claim, n), make([]contract.Hold, n)
	for i := range n {
		name := fmt.Sprint("job ", i)
		ttl := time.Hour
		if i >= 150 {
			ttl = 2 * time.Hour
		}
		claims[i], holds[i] = claim(name, "a", time.Minute), hold(name, "a", ttl)
	}
	for _, g := range store.Acquire(t.Context(), claims) {
		require.Equal(t, contract.StatusHeld, g.Status)
	}
	s.ok(t, "CONFIG", "RESETSTAT")
	for i, a := range store.Renew(t.Context(), holds) {
		require.Equal(t, contract.Answer{Status: contract.StatusHeld}, a, i)
	}
	calls, err := redis.Calls("eval")
	require.NoError(t, err)
	named, err := redis.Calls("evalsha")
	require.NoError(t, err)
	// 0-99, 100-149 with one hour, 150-249, 250-306 with two; each
	// was refused once by name, as the server had not seen it.
	assert.Equal(t, int64(4), calls)
	assert.Equal(t, int64(4), named)
	s.pttl(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "job 149"), 60*minute-5000, 60*minute)
	s.pttl(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "job 150"), 120*minute-5000, 120*minute)

	s.ok(t, "CONFIG", "RESETSTAT")
	for _, a := range store.Renew(t.Context(), holds) {
		require.Equal(t, contract.StatusHeld, a.Status)
	}
	named, err = redis.Calls("evalsha")
	require.NoError(t, err)
	assert.Equal(t, int64(4), named, "now by name")
	for _, a := range store.Release(t.Context(), holds) {
		require.Equal(t, contract.StatusHeld, a.Status)
	}
	assert.Equal(t, int64(1), s.number(t, "DBSIZE"), "only the mark is left")
}

// A hundred names of 512 bytes that all need escaping were one script, which
// kept the server from others for 2.4 ms.
func TestLongNamesAreFewAScript(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	store := s.store(t)
	calls := func(of func()) int64 {
		t.Helper()
		of()
		s.ok(t, "CONFIG", "RESETSTAT") // the server knows the scripts by now
		of()
		n, err := redis.Calls("evalsha")
		require.NoError(t, err)
		return n
	}
	for name, c := range map[string]struct {
		pad    string
		length int   // of a key: PREFIX{name}
		want   int64 // scripts
	}{
		"short":                    {"", 17, 1},
		"as long as a hundred can": {strings.Repeat("x", 163-17), 163, 1},
		"longer":                   {strings.Repeat("x", 164-17), 164, 2},
		"long":                     {strings.Repeat("x", 506), 523, 4},
		"long and escaped":         {strings.Repeat("\x01", 506), 1535, 10},
	} {
		var claims []contract.Claim
		var holds []contract.Hold
		for i := range redisstore.MaxKeys {
			lock := c.pad + fmt.Sprintf("%06d", i)
			assert.Len(t, redisstore.LeaseKey(redisstore.DefaultPrefix, lock), c.length)
			claims, holds = append(claims, claim(lock, "a", time.Minute)), append(holds,
				hold(lock, "a", time.Hour))
		}
		check := func(i int, status contract.Status, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Equal(t, contract.StatusHeld, status, i)
		}
		assert.Equal(t, c.want, calls(func() {
			for i, g := range store.Acquire(t.Context(), claims) {
				check(i, g.Status, g.Err)
			}
		}), name)
		assert.Equal(t, c.want, calls(func() {
			for i, a := range store.Renew(t.Context(), holds) {
				check(i, a.Status, a.Err)
			}
		}), name)
		assert.Equal(t, 2*c.want, calls(func() { // the second half acquires again
			store.Acquire(t.Context(), claims)
			for i, a := range store.Release(t.Context(), holds) {
				check(i, a.Status, a.Err)
			}
		}), name)
	}
}

func TestScriptsForgotten(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	for _, n := range []int{1, 2, 250} {
		var claims []contract.Claim
		var holds []contract.Hold
		for i := range n {
			name := fmt.Sprint("job ", i)
			claims, holds = append(claims, claim(name, "a", time.Minute)), append(holds,
				hold(name, "a", time.Minute))
		}
		s.ok(t, "SCRIPT", "FLUSH")
		for _, g := range store.Acquire(t.Context(), claims) {
			require.Equal(t, contract.StatusHeld, g.Status, "%v", g.Err)
		}
		s.ok(t, "SCRIPT", "FLUSH")
		for _, a := range store.Renew(t.Context(), holds) {
			require.Equal(t, contract.Answer{Status: contract.StatusHeld}, a)
		}
		s.ok(t, "SCRIPT", "FLUSH")
		for _, a := range store.Release(t.Context(), holds) {
			require.Equal(t, contract.Answer{Status: contract.StatusHeld}, a)
		}
	}
}
