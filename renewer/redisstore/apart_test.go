package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// While an acquire waits for a replica, the heartbeats of other leases are
// answered.
func TestAnAcquireWaitsForReplicasApart(t *testing.T) {
	t.Parallel()
	primary, replica, s := withReplica(t)
	store := s.store(t, redisstore.Replicas(1))
	mine(t, store, claim("held", "a", time.Minute))
	require.NoError(t, replica.Stop())

	granted := make(chan contract.Grant, 1)
	go func() {
		granted <- store.Acquire(t.Context(), []contract.Claim{claim("name", "a", 10*time.Minute)})[0]
	}()
	require.Eventually(t, func() bool {
		info, err := primary.Do("INFO", "clients").ToString()
		return err == nil && strings.Contains(info, "blocked_clients:1\r\n")
	}, patience, time.Millisecond)
	answers := store.Renew(t.Context(), []contract.Hold{hold("held", "a", time.Minute)})
	require.NoError(t, answers[0].Err)
	assert.Empty(t, granted, "which waits for up to a minute")

	require.NoError(t, replica.Cont())
	require.NoError(t, (<-granted).Err)
}
