package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// Redis grants the rights of limits apart from those of locks, and an error says which. Each is
// needed.
func TestEachRightOfLimitsIsNeeded(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	all := strings.Fields(redisstore.Rights + " " + redisstore.LimitRights)
	store, err := redisstore.New(s.user(t, redisstore.DefaultPrefix, all...))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	var errs []error
	slot := func(letter string) {
		c := claim(contract.LimitName("a"), letter, time.Minute)
		c.Limit = 2
		errs = append(errs, acquire(t, store, c).Err)
	}
	all = strings.Fields(redisstore.LimitRights)
	use := func() error {
		errs = nil
		s.ok(t, "ZADD", redisstore.LeaseKey(redisstore.DefaultPrefix, contract.LimitName("a")), "1",
			"lapsed")
		slot("b")
		slot("c")
		slot("b")
		slot("d")
		for _, letter := range []string{"b", "c", "d", "b"} {
			h := hold(contract.LimitName("a"), letter, time.Minute)
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
	for _, right := range all {
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
