package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Where a round trip takes longer than ConnWriteTimeout, a connection is given
// up before it has answered anything. Leases end, before another owner can have
// them.
func TestALinkThatIsTooSlow(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	server := redistest.Start(t)
	link := proxy.Start(t, server.Addr())
	store, err := redisstore.OpenEngine(t.Context(), redisstore.Deployment{
		Option: rueidis.ClientOption{InitAddress: []string{link.Addr()}, ForceSingleClient: true},
		TTL:    ttl,
	})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	keeper := keeperOn(t, store, renewer.Config{TTL: ttl, Log: renewer.Silent})
	lease, err := keeper.Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	link.Delay(ttl / 8) // a round trip of a quarter
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		require.Fail(t, "it was kept: say so in docs/safety.md")
	}
	lost := context.Cause(lease.Context())
	require.ErrorIs(t, lost, renewer.ErrLost)
	require.ErrorContains(t, lost, "no renewal was confirmed in time")
	link.Delay(0)
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
}
