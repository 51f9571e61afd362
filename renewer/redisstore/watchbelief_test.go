package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// channelsOf counts the channels of locks that have subscribers on a server.
// (Sentinels subscribe too.)
func channelsOf(t *testing.T, server *redistest.Server) int {
	t.Helper()
	all, err := server.Do("PUBSUB", "CHANNELS", redisstore.DefaultPrefix+"*").AsStrSlice()
	require.NoError(t, err)
	return len(all)
}

// A former primary that the Sentinels can't demote, though clients reach it,
// kept the subscription after a fail-over, so that wake-ups were lost for good.
func TestSubscriptionStaysWithAFormerPrimary(t *testing.T) {
	t.Parallel()
	for name, resp2 := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t)
			old, err := sentinel.Primary()
			require.NoError(t, err)
			heir, err := sentinel.Replica()
			require.NoError(t, err)
			option, err := redisstore.ClientOption(sentinel.ClientOption(), 15*time.Second)
			require.NoError(t, err)
			option.AlwaysRESP2 = resp2
			client, err := rueidis.NewClient(option)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			store := storeOn(t, client, redisstore.Log(renewer.Silent))
			w := newWatch(store, "a")
			defer w.stop()
			w.await(t, "set up")

			// stands for a link that only the Sentinels have lost
			require.NoError(t,
				old.Do("ACL", "SETUSER", "default", "-slaveof", "-replicaof").Error())
			require.NoError(t, sentinel.Failover())
			require.Eventually(t, func() bool {
				return client.Nodes()[heir.Addr()] != nil
			}, patience, time.Millisecond)
			require.Eventually(t, func() bool {
				return channelsOf(t, heir) > 0
			}, patience, time.Millisecond, "on the new primary")
			mine(t, store, claim("a", "a", time.Minute))
			w.await(t, "set up again")
			waitedFor(t, store, "a")
			w.clear()
			require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
			w.await(t, "released on the new primary")
			assert.Empty(t, w.errors(), "it is no fault")
			w.stop()
			require.Eventually(t, func() bool {
				return channelsOf(t, old)+channelsOf(t, heir) == 0
			}, patience, time.Millisecond)
		})
	}
}
