package redisstore_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// However many slots of a limit have lapsed, no request removes more than 64 of
// them, and none of them counts.
func TestALimitIsSweptInPieces(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	key := slotsKey("a")
	lapsed := []string{"ZADD", key}
	for i := range 1000 {
		lapsed = append(lapsed, "1", strconv.Itoa(i))
	}
	s.ok(t, lapsed...)
	require.NoError(t, acquire(t, s.store(t), slotClaim("a", "b", 1)).Err)
	assert.EqualValues(t, 1000-64+1, s.number(t, "ZCARD", key))
}
