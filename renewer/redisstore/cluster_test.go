package redisstore_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

// startCluster starts a cluster of one, which is enough to find out
// what a cluster client refuses to send.
func startCluster(t *testing.T) server {
	t.Helper()
	cluster := redistest.StartCluster(t, 1, 0)
	return server{option: cluster.ClientOption(), admin: cluster.Masters[0].Client(t)}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	client := s.client(t)
	require.Equal(t, rueidis.ClientModeCluster, client.Mode())
	var n atomic.Int32
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		return s.fixture(t, "case"+strconv.Itoa(int(n.Add(1)))+":")
	})
}

// A client that takes a node of a cluster for a single server is
// refused, whichever node that is and whatever the reason.
func TestSilentlySingleClient(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for _, m := range cluster.Masters {
		forced := m.Client(t)
		require.Equal(t, rueidis.ClientModeStandalone, forced.Mode())
		args := []string{
			"ACL", "SETUSER", "locks", "reset", "resetchannels", "on", ">secret",
			"~lockbeat:{*", "&lockbeat:{*",
		}
		require.NoError(t, m.Do(append(args, strings.Fields(redisstore.Rights+" "+
			redisstore.LookRights)...)...).Error())
		blind := m.Client(t, func(o *rueidis.ClientOption) {
			o.ForceSingleClient, o.Username, o.Password = false, "locks", "secret"
		})
		require.Equal(t, rueidis.ClientModeStandalone, blind.Mode(),
			"without the right to ask, the client does not say so")

		for _, client := range []rueidis.Client{forced, blind} {
			_, err := redisstore.New(client, redisstore.ToInspect())
			require.ErrorContains(t, err, "the server is part of a cluster")
			store, err := redisstore.New(client)
			require.Nil(t, store)
			require.ErrorIs(t, err, renewer.ErrRejected)
			assert.ErrorContains(t, err, "the server is part of a cluster")
			assert.ErrorContains(t, err, "ForceSingleClient")
			assert.ErrorContains(t, err, "+cluster|slots")
		}
	}
}
