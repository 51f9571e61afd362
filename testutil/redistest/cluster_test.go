package redistest_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	client := cluster.Client(t)
	require.Equal(t, rueidis.ClientModeCluster, client.Mode())
	for i := range 100 {
		key := fmt.Sprint("k", i)
		require.NoError(t,
			client.Do(t.Context(), client.B().Set().Key(key).Value(key).Build()).Error())
		server, err := cluster.Serving(redistest.Slot(key))
		require.NoError(t, err)
		value, err := server.Do("GET", key).ToString()
		require.NoError(t, err, "it is with the one who serves its slot")
		assert.Equal(t, key, value)
	}
	for _, key := range []string{
		"", "123456789", "{a}b", "x{a}y{b}", "x{}y", "{", "}{a", "{a",
		"a}", "{}{a}", "\x00\xff",
	} {
		want, err := cluster.Masters[0].Do("CLUSTER", "KEYSLOT", key).AsInt64()
		require.NoError(t, err)
		assert.EqualValues(t, want, redistest.Slot(key), "%q", key)
	}
	for _, m := range cluster.Masters {
		n, err := m.DBSize()
		require.NoError(t, err)
		assert.Positive(t, n, "each has a share")
	}
}
