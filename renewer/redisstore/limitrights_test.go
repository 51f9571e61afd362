package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// Redis grants the rights of limits apart from those of locks, and an error
// says which. Each is needed.
func TestEachRightOfLimitsIsNeeded(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeWith(t, redisstore.Rights+" "+redisstore.LimitRights)
	var errs []error
	slot := func(letter string) {
		errs = append(errs, acquire(t, store, slotClaim("a", letter, 2)).Err)
	}
	use := func() error {
		errs = nil
		s.ok(t, "ZADD", slotsKey("a"), "1", "lapsed")
		slot("b")
		slot("c")
		slot("b")
		slot("d")
		for _, letter := range []string{"b", "c", "d", "b"} {
			h := holdSlot("a", letter, time.Minute)
			errs = append(errs, renew(t, store, h).Err, release(t, store, h).Err)
		}
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, use())
	for right := range strings.FieldsSeq(redisstore.LimitRights) {
		s.ok(t, "FLUSHALL")
		s.ok(t, "ACL", "SETUSER", "locks", "-"+right[1:])
		err := use()
		require.ErrorIs(t, err, renewer.ErrRejected, right)
		if strings.Contains(err.Error(), "acquire") {
			assert.ErrorContains(t, err, "limits need further rights: "+redisstore.LimitRights)
		}
		s.ok(t, "ACL", "SETUSER", "locks", right)
	}
}

// A grant that is refused halfway, as rights are taken away meanwhile, leaves
// no key without a TTL, and its token is not given again, also where tokens run
// ahead of the clock.
func TestASlotThatIsRefusedHalfway(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeWith(t, redisstore.Rights+" "+redisstore.LimitRights)
	slot := func(letter string) contract.Grant {
		return acquire(t, store, slotClaim("a", letter, 3))
	}
	key := slotsKey("a")
	ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	s.ok(t, "SET", redisstore.MarkKey(redisstore.DefaultPrefix), ahead, "PX", "600000")
	s.ok(t, "ACL", "SETUSER", "locks", "-pexpire")
	require.ErrorIs(t, slot("b").Err, renewer.ErrRejected)
	assert.Zero(t, s.number(t, "EXISTS", key, key+":holders"))

	s.ok(t, "ACL", "SETUSER", "locks", "+pexpire")
	tokens := map[int64]bool{slot("b").Fence: true}
	s.ok(t, "PEXPIRE", key, "30000") // so that the next one moves it
	s.ok(t, "ACL", "SETUSER", "locks", "-pexpire")
	require.ErrorIs(t, slot("c").Err, renewer.ErrRejected)
	s.ok(t, "ACL", "SETUSER", "locks", "+pexpire")
	for _, letter := range []string{"d", "c"} {
		g := slot(letter)
		require.NoError(t, g.Err)
		tokens[g.Fence] = true
	}
	assert.Len(t, tokens, 3)
}
