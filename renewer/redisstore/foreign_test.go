package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// A key of another type where one lock's line, counter or lease should be keeps
// no other lock of the batch from being acquired, renewed and freed, and the lock
// itself only if it is the lease, or has to be read as a number.
func TestAForeignKeyBesideOneLockSpoilsNoOther(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Minute))
	listening(t, store)
	const n, bad = 20, 10
	claims, holds := make([]contract.Claim, n), make([]contract.Hold, n)
	acquire := func(letter string, place int) []contract.Grant {
		for i := range n {
			claims[i] = claim("batch"+strconv.Itoa(i), letter, time.Minute)
			claims[i].Place = uint64(place + i)
			holds[i] = hold("batch"+strconv.Itoa(i), letter, time.Minute)
		}
		return store.Acquire(t.Context(), claims)
	}
	for _, suffix := range []string{":waiters", ":fence", "", "mark"} {
		for _, foreign := range [][]string{{"SET", "x"}, {"RPUSH", "x"}, {"HSET", "x", "y"}} {
			s.ok(t, "FLUSHALL")
			lease := redisstore.LeaseKey(redisstore.DefaultPrefix, "batch"+strconv.Itoa(bad))
			key := lease + suffix
			if suffix == "mark" {
				key = redisstore.MarkKey(redisstore.DefaultPrefix)
			}
			spoil := func() {
				s.ok(t, "DEL", key)
				s.ok(t, append([]string{foreign[0], key}, foreign[1:]...)...)
			}

			acquire("a", 1)
			spoil()
			for _, answers := range [][]contract.Answer{
				store.Renew(t.Context(), holds),
				store.Release(t.Context(), holds),
			} {
				for i, a := range answers {
					require.NoError(t, a.Err, "%d, beside %v at %s", i, foreign, key)
					require.Equal(t, i != bad || suffix != "", a.Status == contract.StatusHeld,
						"%d, beside %v at %s", i, foreign, key)
				}
			}
			var left []string
			if suffix != "mark" {
				left = append(left, key)
			}
			assert.ElementsMatch(t, left, s.texts(t, "KEYS", "*{batch*"), "%v at %s", foreign, key)

			text := foreign[0] == "SET"
			refused := func(i int) bool {
				switch suffix {
				case ":waiters":
					return false
				case "":
					return i == bad && !text
				case "mark":
					return text
				default: // a counter is read as text
					return i == bad && text
				}
			}
			s.ok(t, "SET", redisstore.MarkKey(redisstore.DefaultPrefix), "g7")
			spoil()
			for i, g := range acquire("b", 1000) {
				switch {
				case refused(i):
					rejected(t, g)
					if suffix != "" {
						assert.ErrorContains(t, g.Err, key+" is no number")
						assert.ErrorContains(t, g.Err, "delete the key")
						assert.Zero(t, s.number(t, "EXISTS", lease))
					}
				case i == bad && suffix == "":
					assert.Equal(t, contract.StatusQueued, g.Status)
				default:
					require.NoError(t, g.Err, "%d, beside %v at %s", i, foreign, key)
					require.Equal(t, contract.StatusHeld, g.Status, "%d: %v at %s", i, foreign, key)
				}
			}
			if !refused(0) { // nobody has a lock otherwise
				for i, g := range acquire("c", 2000) {
					if i != bad {
						require.NoError(t, g.Err, "%d, beside %v at %s", i, foreign, key)
						require.Equal(t, contract.StatusQueued, g.Status,
							"%d, beside %v at %s", i, foreign, key)
					}
				}
			}
		}
	}
}

// So it is with limits.
func TestAForeignKeyBesideOneLimitSpoilsNoOther(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	for _, suffix := range []string{"", ":holders", ":waiters"} {
		const n, bad = 20, 10
		foreign := "lockbeat:{batch" + strconv.Itoa(bad) + "}:slots" + suffix
		claims, holds := make([]contract.Claim, n), make([]contract.Hold, n)
		for i := range n {
			name := "batch" + strconv.Itoa(i)
			claims[i], holds[i] = slotClaim(name, "a", 3), holdSlot(name, "a", time.Minute)
		}
		acquire := func(letter string) {
			for i := range claims {
				claims[i].Owner = owner(letter)
			}
			for i, g := range store.Acquire(t.Context(), claims) {
				if i == bad && suffix != ":waiters" {
					rejected(t, g)
				} else {
					require.NoError(t, g.Err, "%d, beside %s", i, foreign)
					require.Equal(t, contract.StatusHeld, g.Status, "%d, beside %s", i, foreign)
				}
			}
		}
		t.Log("nobody has one")
		s.ok(t, "SET", foreign, "x")
		acquire("b")
		t.Log("one is had, and the key spoilt then")
		if suffix != ":waiters" {
			s.ok(t, "DEL", foreign)
			mine(t, store, claims[bad])
			s.ok(t, "DEL", foreign)
			s.ok(t, "SET", foreign, "x")
		}
		acquire("a")
		if suffix == ":holders" {
			assert.EqualValues(t, 1, s.number(t, "ZCARD", "lockbeat:{batch10}:slots"), "b's")
		}
		for _, letter := range []string{"a", "b"} {
			for i := range holds {
				holds[i].Owner = owner(letter)
			}
			for _, answers := range [][]contract.Answer{
				store.Renew(t.Context(), holds), store.Release(t.Context(), holds),
			} {
				for i, a := range answers {
					require.NoError(t, a.Err, "%d, beside %s", i, foreign)
					require.True(t, i == bad || a.Status == contract.StatusHeld,
						"%d, beside %s", i, foreign)
				}
			}
		}
		left := 2 // the mark, and the foreign one
		if suffix == "" {
			left++ // what is known of b's slot lapses with it
		}
		assert.EqualValues(t, left, s.number(t, "DBSIZE"), "beside %s", foreign)
		assert.EqualValues(t, 1, s.number(t, "EXISTS", foreign))
		s.ok(t, "FLUSHALL")
	}
}
