package redisstore_test

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// natively has each next claim of a store be native that may be.
func (s server) natively(t *testing.T, store *redisstore.Engine) *redisstore.Engine {
	t.Helper()
	store.NativeAtOnce()
	s.script(t, store)
	return store
}

// nativeStore is a store whose claims are native, on a server of its own.
func nativeStore(t *testing.T) (server, *redisstore.Engine) {
	t.Helper()
	_, s := startReal(t)
	return s, s.natively(t, s.store(t))
}

// script has a store claim by script, after which claims are native for a
// moment.
func (s server) script(t *testing.T, store *redisstore.Engine) (fence int64) {
	t.Helper()
	c := claim(strings.Repeat("-", redisstore.NativeName+1), "s", time.Minute)
	fence = mine(t, store, c)
	release(t, store, hold(c.Name, "s", 0))
	s.ok(t, "CONFIG", "RESETSTAT")
	return fence
}

// native takes a lock, and requires that no script did.
func (s server) native(t *testing.T, store *redisstore.Engine, name string) (fence int64) {
	t.Helper()
	for range 100 { // a busy machine may take longer than the moment that a script gives
		s.script(t, store)
		if fence = mine(t, store, claim(name, "n", time.Minute)); calls(t, s, "evalsha") == 0 {
			return fence
		}
		release(t, store, hold(name, "n", 0))
	}
	require.Fail(t, "no claim was native")
	return 0
}

func (s server) value(t *testing.T, name string) string {
	t.Helper()
	return s.get(t, redisstore.LeaseKey(redisstore.DefaultPrefix, name))
}

func notYet(hold contract.Hold, fence int64) contract.Hold {
	hold.Fence = fence
	return hold
}

// A lone claim is two commands: on the connection that all share a transaction, and on a
// lone caller's own without one. Its token is above all earlier ones.
func TestALoneClaimIsNative(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	before := s.script(t, store)
	fence := s.native(t, store, "a")
	assert.Greater(t, fence, before)
	for command, times := range map[string]int64{
		"incr": 1, "set": 1, "exec": 1, "get": 0, "time": 0, "evalsha": 0, "eval": 0,
	} {
		assert.Equal(t, times, calls(t, s, command), command)
	}
	assert.Equal(t, strconv.FormatInt(fence, 10),
		s.get(t, redisstore.MarkKey(redisstore.DefaultPrefix)))
	s.pttl(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), minute-5000, minute)
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "n", 0)).Status)
	assert.Greater(t, s.script(t, store), fence)
	warm(t, store)
	s.native(t, store, "a")
	if !redisstore.Shares() {
		assert.Zero(t, calls(t, s, "exec"))
	}
}

// So is the script that frees it, which does not know who waits. For the next
// few another does.
func TestALoneReleaseIsAShortScript(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	other := s.store(t)
	free := func(fence int64) (scripts int64) {
		s.ok(t, "CONFIG", "RESETSTAT")
		h := notYet(hold("a", "n", 0), fence)
		require.Equal(t, contract.Answer{Status: contract.StatusHeld}, release(t, store, h))
		return calls(t, s, "evalsha") + calls(t, s, "eval")
	}
	free(s.native(t, store, "a")) // the server learns it
	assert.Equal(t, int64(1), free(s.native(t, store, "a")))
	fence := s.native(t, store, "a")
	s.ok(t, "SCRIPT", "FLUSH")
	free(fence)
	for file, known := range map[string]int64{"free.lua": 1, "release.lua": 0} {
		sum := sha1.Sum([]byte(redisstore.ScriptText(file))) //nolint:gosec // Redis names it so
		answer, err := s.do(t, "SCRIPT", "EXISTS", hex.EncodeToString(sum[:])).AsIntSlice()
		require.NoError(t, err)
		assert.Equal(t, []int64{known}, answer, file)
	}

	t.Log("somebody waits for it")
	fence = s.native(t, store, "a")
	woken := newWatch(other, "a")
	t.Cleanup(woken.stop)
	woken.await(t, "set up")
	require.Equal(t, contract.StatusTaken, acquire(t, other, claim("a", "b", minuteTTL)).Status)
	assert.Equal(t, int64(2), free(fence))
	woken.await(t, "freed")
	for range 15 {
		fence := mine(t, store, claim("a", "n", minuteTTL))
		acquire(t, other, claim("a", "b", minuteTTL))
		assert.Equal(t, int64(1), free(fence))
	}

	t.Log("it is another's, or nobody's")
	for _, spoil := range [][]string{
		{"SET", redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), "other"},
		{"DEL", redisstore.LeaseKey(redisstore.DefaultPrefix, "a")},
	} {
		fence := s.native(t, store, "a")
		s.ok(t, spoil...)
		a := release(t, store, notYet(hold("a", "n", 0), fence))
		assert.Equal(t, spoil[0] == "SET", a.Status == contract.StatusTaken, a)
		assert.Equal(t, spoil[0] == "DEL", a.Status == contract.StatusGone, a)
		s.ok(t, "DEL", redisstore.LeaseKey(redisstore.DefaultPrefix, "a"))
	}
}

// Until the first heartbeat the value has no token. Who has the lock, and since
// when, is there.
func TestTheFirstHeartbeatNotesTheToken(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	other := s.store(t)
	fence := s.native(t, store, "a")
	assert.Regexp(t, "^n{22}\n0\n[0-9]{16}\nnode-n\n42\ntest$", s.value(t, "a"))
	shown := showOf(t, other, "a", false).Slots
	require.Len(t, shown, 1)
	assert.Equal(t, "node-n", shown[0].Node)
	assert.InDelta(t, time.Now().UnixMicro(), shown[0].Since.UnixMicro(), 1e7)
	assert.Zero(t, shown[0].Fence)

	breaks := contract.Breaking{Name: "a", Fence: fence}
	assert.ErrorContains(t, other.Break(t.Context(), breaks).Err, "first heartbeat")
	g := acquire(t, other, claim("a", "b", time.Minute))
	require.Equal(t, contract.StatusTaken, g.Status, g.Err)
	assert.Equal(t, "node-n", g.Holder.Node)
	assert.False(t, g.Foreign)
	assert.Positive(t, g.HeldFor)
	assert.Less(t, g.HeldFor, 10*time.Second)

	h := notYet(hold("a", "n", time.Hour), fence)
	h.Tells, h.Callers = true, 3
	for range 2 { // the first answer may be lost
		require.Equal(t, contract.Answer{Status: contract.StatusHeld}, renew(t, store, h))
		assert.Regexp(t, "^n{22}\n"+strconv.FormatInt(fence, 10)+
			"\n[0-9]{16}\nnode-n\n42\ntest\n\n3\n\\+$", s.value(t, "a"))
	}
	s.pttl(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), 60*minute-5000, 60*minute)
	assert.Equal(t, fence, showOf(t, other, "a", false).Slots[0].Fence)
	assert.Equal(t, contract.StatusHeld, other.Break(t.Context(), breaks).Status)
	assert.Equal(t, contract.StatusBroken, renew(t, store, h).Status)
}

// A lock that stays held behind its operation has no heartbeat any more.
func TestALockThatIsKeptHasItsToken(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	fence := s.native(t, store, "a")
	h := notYet(hold("a", "n", 0), fence)
	h.Keep, h.Place = time.Hour, 7
	require.Equal(t, contract.StatusHeld, release(t, store, h).Status)
	assert.Equal(t, fence, showOf(t, store, "a", false).Slots[0].Fence)
	s.pttl(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), 60*minute-5000, 60*minute)
}

// Its answer was lost: the owner that asks again has a higher token, and its
// lease.
func TestTheAnswerToANativeClaimIsLost(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	other := s.store(t)
	fence := s.native(t, store, "a")
	again := mine(t, other, claim("a", "n", time.Hour))
	assert.Greater(t, again, fence)
	assert.Contains(t, s.value(t, "a"), owner("n")+"\n"+strconv.FormatInt(again, 10)+"\n")
	assert.Equal(t, again, mine(t, other, claim("a", "n", time.Minute)))
	s.pttl(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), 60*minute-5000, 60*minute)
}

// A server that has forgotten shows it by the token: the script lifts the mark
// to the clock.
func TestNoNativeClaimOfAServerThatHasForgotten(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	mark := redisstore.MarkKey(redisstore.DefaultPrefix)
	for _, forget := range []func(last int64){
		func(int64) { s.ok(t, "FLUSHALL") },
		func(int64) { s.ok(t, "DEL", mark) },
		func(last int64) { // as a replica that was promoted behind its primary
			s.ok(t, "SET", mark, strconv.FormatInt(last-1_000_000, 10), "PX", "60000")
		},
	} {
		last := s.native(t, store, "a")
		release(t, store, hold("a", "n", 0))
		forget(last)
		next := mine(t, store, claim("a", "a", time.Minute))
		assert.Greater(t, next, last)
		assert.Contains(t, s.value(t, "a"), "\n"+strconv.FormatInt(next, 10)+"\n")
		assert.GreaterOrEqual(t, s.number(t, "GET", mark), next)
		assert.Positive(t, s.number(t, "PTTL", mark))
		release(t, store, hold("a", "a", 0))
	}
}

// A native claim that is refused costs as much again, so that the next few go
// by script.
func TestAfterARefusalScriptsForTheNextFew(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	s.native(t, store, "taken")
	for range 100 {
		s.script(t, store)
		g := acquire(t, store, claim("taken", "b", time.Minute))
		require.Equal(t, contract.StatusTaken, g.Status, g.Err)
		if calls(t, s, "incr") > 0 {
			break
		}
	}
	assert.Equal(t, int64(1), calls(t, s, "incr"))
	for range 16 {
		mine(t, store, claim("a", "a", time.Minute))
		release(t, store, hold("a", "a", 0))
	}
	assert.Equal(t, int64(1), calls(t, s, "incr"))
	s.native(t, store, "a")
}

// Without the rights, and where tokens are given, scripts do it for good.
func TestScriptsForGood(t *testing.T) {
	t.Parallel()
	const tokens = "tokens are given"
	for name, rights := range map[string]string{
		"rights": redisstore.Rights, "rights to a transaction": redisstore.Rights + " +incr", tokens: "+@all",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			store := s.storeWith(t, rights)
			if name == tokens {
				given(t, store, claim("given", "a", time.Minute), 8e15)
				release(t, store, hold("given", "a", 0))
			}
			s.natively(t, store)
			last := int64(0)
			for range 100 {
				s.script(t, store)
				fence := mine(t, store, claim("given", "a", time.Minute))
				require.Greater(t, fence, last)
				last = fence
				assert.Positive(t, calls(t, s, "evalsha"))
				release(t, store, hold("given", "a", 0))
			}
			stats, err := s.do(t, "INFO", "commandstats").ToString()
			require.NoError(t, err)
			assert.NotContains(t, stats, "cmdstat_incr:calls", "it is not tried again")
			if name == tokens {
				assert.Greater(t, last, int64(8e15))
			}
		})
	}
}

// What needs more than two commands goes by script.
func TestWhatIsNotNative(t *testing.T) {
	t.Parallel()
	s, store := nativeStore(t)
	for name, edit := range map[string]func(*contract.Claim){
		"place":     func(c *contract.Claim) { c.Place = 1 },
		"limit":     func(c *contract.Claim) { c.Limit = 1 },
		"newness":   func(c *contract.Claim) { c.Newness.Rank = 7 },
		"manual":    func(c *contract.Claim) { c.Manual = true },
		"long name": func(c *contract.Claim) { c.Name = strings.Repeat("x", redisstore.NativeName+1) },
	} {
		s.script(t, store)
		c := claim(name, "a", time.Minute)
		edit(&c)
		mine(t, store, c)
		assert.Zero(t, calls(t, s, "incr"), name)
	}
	s.script(t, store)
	store.Acquire(t.Context(), []contract.Claim{claimOf("b", 1), claimOf("c", 2)})
	assert.Zero(t, calls(t, s, "incr"), "two names")
	s.native(t, store, "a")
}

// A native claim whose server does not answer ends at its deadline, with
// nothing granted.
func TestANativeClaimThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	store := s.natively(t, s.store(t))
	require.NoError(t, redis.Stop())
	ctx := within(t, 200*time.Millisecond)
	g := store.Acquire(ctx, []contract.Claim{claim("a", "a", time.Minute)})[0]
	assert.Equal(t, contract.StatusUnknown, g.Status)
	assert.ErrorIs(t, g.Err, context.DeadlineExceeded)
}

// One whose connection ends may be carried out yet: a script's answer would
// hide that.
func TestANativeClaimThatIsLostIsUnknown(t *testing.T) {
	t.Parallel()
	link, store := throughLink(t)
	store.NativeAtOnce()
	link.DropReplyTo(func(request []byte) bool { return bytes.Contains(request, []byte("EXEC")) },
		1, proxy.ThenReset)
	for i := range 100 { // a busy machine may take longer than the moment that a script gives
		mine(t, store, claim(strings.Repeat("-", redisstore.NativeName+1), "s", time.Minute))
		release(t, store, hold(strings.Repeat("-", redisstore.NativeName+1), "s", 0))
		c := claim(strconv.Itoa(i), "n", time.Minute)
		g := store.Acquire(t.Context(), []contract.Claim{c})[0]
		if link.Dropped() == 1 {
			assert.Equal(t, contract.StatusUnknown, g.Status)
			return
		}
	}
	require.Fail(t, "no claim was native")
}

// A store whose client ClientOption has completed needs no more than a second
// without a dial.
//
//nolint:paralleltest // others dial
func TestClaimsAreNativeAfterAWhile(t *testing.T) {
	_, s := startReal(t)
	option, err := redisstore.ClientOption(s.option, time.Minute)
	require.NoError(t, err)
	s.option = option
	store, plain := s.store(t), s.store(t)
	plain.NeverNative()
	s.ok(t, "CONFIG", "RESETSTAT")
	begun := time.Now()
	for calls(t, s, "incr") == 0 {
		require.Less(t, time.Since(begun), patience)
		for range 10 {
			lone(t, store)
		}
	}
	assert.Greater(t, time.Since(begun), 500*time.Millisecond)
	s.ok(t, "CONFIG", "RESETSTAT")
	for range 100 {
		lone(t, plain)
	}
	assert.Zero(t, calls(t, s, "incr"))
}

// What a lone cycle allocates, by script and natively.
//
//nolint:paralleltest // it counts what the whole process allocates
func TestAllocationsOfANativeClaim(t *testing.T) {
	_, s := startReal(t)
	option, err := redisstore.ClientOption(s.option, time.Minute)
	require.NoError(t, err)
	s.option = option
	byScript, natively := s.store(t), s.natively(t, s.store(t))
	cycle := func(store *redisstore.Engine) func() {
		claims := []contract.Claim{claim("x", "a", time.Minute)}
		holds := []contract.Hold{hold("x", "a", 0)}
		return func() {
			store.Acquire(context.Background(), claims)
			store.Release(context.Background(), holds)
		}
	}
	script := testing.AllocsPerRun(1000, cycle(byScript))
	s.ok(t, "CONFIG", "RESETSTAT")
	native := testing.AllocsPerRun(1000, cycle(natively))
	require.Greater(t, calls(t, s, "incr"), int64(500))
	if !redisstore.Shares() { // as after -count=2: see TestALoneClaimIsNative
		assert.LessOrEqual(t, native, script+2, "the client makes three for its results")
	}
}
