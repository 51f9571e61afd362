package redisstore_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// turn takes and frees a lock, and returns the token.
func turn(t testing.TB, s renewer.Store, name, letter string) int64 {
	t.Helper()
	fence := mine(t, s, claim(name, letter, time.Minute))
	require.Equal(t, renewer.StatusHeld, release(t, s, hold(name, letter, 0)).Status)
	return fence
}

func TestFenceFollowsTheClock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		fence := turn(t, store, "a", "a")
		assert.InDelta(t, time.Now().UnixMicro(), fence, float64(time.Minute.Microseconds()))
	})
}

func TestFenceSurvivesFlushAll(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		last := int64(0)
		for range 20 {
			fence := mine(t, store, claim("a", "a", time.Minute))
			require.Greater(t, fence, last)
			last = fence
			s.ok(t, "FLUSHALL")
		}
	})
}

// counters are the keys from which a token of lock a is picked: of the name, and of the server.
func counters() map[string]string {
	_, given := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	return map[string]string{
		"given": given, "ahead": redisstore.AheadKey(redisstore.DefaultPrefix, "a"),
		"mark": redisstore.MarkKey(redisstore.DefaultPrefix),
	}
}

func TestFenceCounterAheadOfTheClock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store, mark := s.store(t), redisstore.MarkKey(redisstore.DefaultPrefix)
		own := redisstore.OwnKey(redisstore.DefaultPrefix)
		for _, counter := range counters() {
			for _, last := range []int64{8e15, redisstore.MaxExact - 2, redisstore.MaxExact - 1} {
				s.ok(t, "FLUSHALL")
				s.ok(t, "SET", counter, strconv.FormatInt(last, 10))
				s.ok(t, "SET", own, strconv.FormatInt(last, 10))
				assert.Equal(t, last+1, turn(t, store, "a", "a"))
				assert.Equal(t, strconv.FormatInt(last+1, 10), s.get(t, counter), "to the last digit")
				if counter == mark && last < redisstore.MaxExact-1 {
					assert.Equal(t, last+2, turn(t, store, "b", "a"), "of all names")
				}
			}
		}
	})
}

// A mark that is ahead of the clock lasts as much longer: or it would be gone before the clock is
// there.
func TestTheMarkOutlivesTheClockSetBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store, mark := s.store(t, redisstore.FenceTTL(time.Hour)),
			redisstore.MarkKey(redisstore.DefaultPrefix)
		ahead := time.Now().Add(2 * time.Hour).UnixMicro()
		s.ok(t, "SET", mark, strconv.FormatInt(ahead, 10), "PX", "1000")
		assert.Equal(t, ahead+1, turn(t, store, "a", "a"))
		s.pttl(t, mark, 3*60*minute-minute, 3*60*minute)
	})
}

func TestFenceCounterDamaged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		last := turn(t, store, "a", "a")
		lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "a")
		s.ok(t, "SET", redisstore.OwnKey(redisstore.DefaultPrefix), "8000000000000000")
		for _, counter := range counters() {
			for _, damage := range []string{
				"", "x", "-5", "1e3", "0x10", " 7", "7 ", "7.5", "nan", "inf", "7\n",
				strconv.Itoa(redisstore.MaxExact), strconv.Itoa(redisstore.MaxExact + 1),
				"9999999999999999", "99999999999999999999999",
			} {
				s.ok(t, "SET", counter, damage)
				for _, reserve := range []int{0, 5} {
					c := claim("a", "a", time.Minute)
					c.Reserve = reserve
					rejected(t, acquire(t, store, c), counter+" is no number", "delete the key")
				}
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
	})
}

func TestFenceRisesOverAllOwners(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	var mu sync.Mutex // the lock under test excludes as well; this is for the race detector
	var fences []int64
	var wg sync.WaitGroup
	const workers, grants = 8, 1000
	for w := range workers {
		store := s.store(t)
		wg.Go(func() {
			for i := 0; i < grants/workers; {
				letter := string(rune('a' + w))
				g := acquire(t, store, claim("a", letter, time.Minute))
				if g.Status != renewer.StatusHeld {
					assert.Equal(t, renewer.StatusTaken, g.Status, "%v", g.Err)
					continue
				}
				mu.Lock()
				fences = append(fences, g.Fence)
				mu.Unlock()
				i++
				assert.Equal(t, renewer.StatusHeld, release(t, store, hold("a", letter, 0)).Status)
			}
		})
	}
	wg.Wait()
	require.Len(t, fences, grants)
	for i := 1; i < len(fences); i++ {
		require.Greater(t, fences[i], fences[i-1])
	}
}

// No key is ever without a TTL, whatever the order of events.
func TestEveryKeyHasATTL(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		// A counter of given tokens that would lapse before its lease does is kept as long as that.
		store := s.store(t, redisstore.FenceTTL(30*time.Second))
		for i := range 10 {
			name := fmt.Sprint("job ", i)
			c := claim(name, "a", time.Minute)
			counter := ""
			switch i % 3 {
			case 1:
				c.Reserve = 60e6
				counter = redisstore.AheadKey(redisstore.DefaultPrefix, name)
			case 2:
				c.Fence = 8e15
				_, counter = redisstore.LockKeys(redisstore.DefaultPrefix, name)
			}
			mine(t, store, c)
			acquire(t, store, claim(name, "b", time.Minute))
			renew(t, store, hold(name, "a", 2*time.Minute))
			renew(t, store, hold(name, "b", time.Minute))
			renew(t, store, hold("not "+name, "a", time.Minute))
			switch i % 3 {
			case 1:
				s.pttl(t, counter, 1, 61_001)
			case 2:
				s.pttl(t, counter, minute-5000, minute)
			}
			if own := redisstore.OwnKey(redisstore.DefaultPrefix); counter != "" {
				assert.GreaterOrEqual(t, s.number(t, "GET", own), s.number(t, "GET", counter))
				assert.GreaterOrEqual(t, s.number(t, "PTTL", own), s.number(t, "PTTL", counter))
			}
			if i%2 == 0 {
				release(t, store, hold(name, "a", 0))
				release(t, store, hold(name, "a", 0))
			}
		}
		keys, err := s.do(t, "KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		assert.Len(t, keys, 5+3+3+2, "leases, counters of both kinds, and those of the server")
		for _, key := range keys {
			assert.Positive(t, s.number(t, "PTTL", key), key)
		}
	})
}

// The counter of one name that has run ahead of the clock, as another server's may have, raises the
// tokens of no other name.
func TestOneNameAheadOfTheClockLeavesTheOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s server) {
		store := s.store(t)
		before := turn(t, store, "b", "a")
		_, given := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
		ahead := redisstore.AheadKey(redisstore.DefaultPrefix, "a")
		last := int64(redisstore.MaxExact - 20)
		for _, counter := range []string{given, ahead} {
			s.ok(t, "SET", counter, strconv.FormatInt(last, 10), "PX", "60000")
			s.ok(t, "SET", redisstore.OwnKey(redisstore.DefaultPrefix), strconv.FormatInt(last, 10))
			for range 3 {
				fence := turn(t, store, "a", "a")
				require.Greater(t, fence, last)
				last = fence
			}
			c := claim("a", "a", time.Minute)
			c.Reserve = 3
			g := acquire(t, store, c)
			require.Equal(t, renewer.StatusHeld, g.Status)
			require.Greater(t, g.Fence, last)
			handed := hold("a", "a", 0)
			handed.Used = g.Fence + 1
			require.Equal(t, renewer.StatusHeld, release(t, store, handed).Status)
			last = g.Fence + 1
			next := turn(t, store, "b", "a")
			assert.Greater(t, next, before)
			assert.Less(t, next, time.Now().Add(time.Minute).UnixMicro())
			before = next
		}
	})
}
