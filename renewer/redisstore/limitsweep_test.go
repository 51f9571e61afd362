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

// However many slots of a limit have lapsed, no request removes more than 64 of them, and none of
// them counts.
func TestALimitIsSweptInPieces(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		key := redisstore.LeaseKey(redisstore.DefaultPrefix, contract.LimitName("a"))
		lapsed := []string{"ZADD", key}
		for i := range 1000 {
			lapsed = append(lapsed, "1", strconv.Itoa(i))
		}
		s.ok(t, lapsed...)
		c := claim(contract.LimitName("a"), "b", time.Minute)
		c.Limit = 1
		require.NoError(t, acquire(t, s.store(t), c).Err)
		assert.EqualValues(t, 1000-64+1, s.number(t, "ZCARD", key))
	})
}
