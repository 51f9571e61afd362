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
)

// An acquire on a client that had been closed waited for what can never mend.
func TestAcquireOnAClosedClient(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	client := s.client(t)
	store := storeOn(t, client)
	keeper, err := renewer.New(store, renewer.Config{TTL: 3 * time.Second})
	require.NoError(t, err)
	// There is nothing to free.
	t.Cleanup(func() { _ = keeper.Shutdown(within(t, time.Millisecond)) })
	client.Close()
	ctx := within(t, patience)
	_, err = keeper.Acquire(ctx, renewer.Request{Name: "a"})
	require.ErrorIs(t, err, renewer.ErrUnavailable)
	require.ErrorIs(t, err, renewer.ErrRejected)
	require.ErrorIs(t, err, rueidis.ErrClosing)
	assert.ErrorContains(t, err, "the client has been closed")
	for _, n := range []int{1, 3} {
		holds := make([]contract.Hold, n)
		for i := range holds {
			holds[i] = hold("a", "a", time.Duration(i+1)*time.Minute)
		}
		for _, a := range append(store.Renew(ctx, holds), store.Release(ctx, holds)...) {
			require.ErrorIs(t, a.Err, renewer.ErrRejected)
		}
	}
}

// A process that does nothing but to renew sent four or five PINGs for each
// renewal.
func TestPingsOfAnIdleProcess(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	const ttl = 2 * time.Second
	client := s.client(t, func(o *rueidis.ClientOption) {
		var err error
		*o, err = redisstore.ClientOption(*o, ttl)
		require.NoError(t, err)
	})
	keeper := keeperOn(t, storeOn(t, client), renewer.Config{TTL: ttl})
	lease, err := keeper.Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	s.ok(t, "CONFIG", "RESETSTAT")
	const renewals = 2
	require.Eventually(t, func() bool {
		_ = s.do(t, "TIME").Error() // lest this client be idle too
		n, err := redis.Calls("evalsha")
		return err == nil && n >= renewals
	}, patience, 10*time.Millisecond)
	pings, err := redis.Calls("ping")
	require.NoError(t, err)
	sent, err := redis.Calls("evalsha") // on a busy machine there are more by now
	require.NoError(t, err)
	t.Logf("%d PINGs for %d renewals", pings, sent)
	assert.LessOrEqual(t, pings, 2*sent+1,
		"one each; two where a heartbeat and the client's look at the clock meet")
	require.NoError(t, lease.Release(t.Context()))
}
