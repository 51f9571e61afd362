package redisstore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Nodes that are to be known by a host name and have none are called "?": no
// client finds them, and each call waited until its deadline.
func TestNodesWithoutAName(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	if !c.Masters[0].Knows("SSUBSCRIBE") {
		t.Skip("endpoints came with Redis 7")
	}
	open := func() error {
		store, err := redisstore.OpenEngine(t.Context(), redisstore.Deployment{
			Option: c.ClientOption(), Cluster: true,
		})
		if err == nil {
			store.Close()
		}
		return err
	}
	for _, node := range c.Masters {
		require.NoError(t, node.Do("CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname").
			Error())
	}
	err := open()
	require.ErrorIs(t, err, renewer.ErrRejected)
	assert.ErrorContains(t, err, "cluster-announce-hostname")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	for _, node := range c.Masters {
		require.NoError(t, node.Do("CONFIG", "SET", "cluster-preferred-endpoint-type",
			"unknown-endpoint").Error())
	}
	require.NoError(t, open(), "null is the address that was asked")
}
