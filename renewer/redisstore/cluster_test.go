package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
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

// Leases of many slots are freed in one call, by several goroutines of the
// client, which make their commands again where a server turns them away.
func TestLeasesOfAClusterInOneCall(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	s := server{option: cluster.ClientOption(), admin: cluster.Masters[0].Client(t)}.store(t)
	const n = 300
	claims, holds := make([]contract.Claim, n), make([]contract.Hold, n)
	for i := range n {
		claims[i] = claim(strconv.Itoa(i), "a", time.Minute)
		holds[i] = hold(strconv.Itoa(i), "a", time.Minute)
	}
	for range 3 {
		for _, g := range s.Acquire(t.Context(), claims) {
			require.Equal(t, contract.StatusHeld, g.Status, g.Err)
		}
		for _, a := range s.Release(t.Context(), holds) {
			require.Equal(t, contract.StatusHeld, a.Status, a.Err)
		}
	}
}

// Slots of one limit are asked for, renewed and freed in one call, as they
// share their keys.
func TestSlotsShareACallOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, 0)
	master := cluster.Masters[0]
	s := server{option: cluster.ClientOption(), admin: master.Client(t)}.store(t)
	const n = 10
	claims, holds := make([]contract.Claim, n), make([]contract.Hold, n)
	for i := range n {
		letter := string(rune('a' + i))
		claims[i] = slotClaim("x", letter, n)
		holds[i] = holdSlot("x", letter, time.Minute)
	}
	calls := func() (calls int64) {
		for _, command := range []string{"eval", "evalsha"} {
			n, err := master.Calls(command)
			require.NoError(t, err)
			calls += n
		}
		return calls
	}
	before := calls()
	for i, g := range s.Acquire(t.Context(), claims) {
		require.Equal(t, contract.StatusHeld, g.Status, i)
	}
	for _, ask := range []func(context.Context, []contract.Hold) []contract.Answer{s.Renew, s.Release} {
		for i, a := range ask(t.Context(), holds) {
			require.Equal(t, contract.StatusHeld, a.Status, i)
		}
	}
	require.LessOrEqual(t, calls()-before, int64(2*3), "and a script that the server does not have")
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
			err := refused(t, client, redisstore.ToInspect())
			require.ErrorContains(t, err, "the server is part of a cluster")
			err = refused(t, client)
			require.ErrorIs(t, err, renewer.ErrRejected)
			assert.ErrorContains(t, err, "the server is part of a cluster")
			assert.ErrorContains(t, err, "ForceSingleClient")
			assert.ErrorContains(t, err, "+cluster|slots")
		}
	}
}

// refused is why no store is made of a client. One is made of a server that
// does not answer in time, as on a busy machine: it is asked later.
func refused(t *testing.T, client rueidis.Client, opts ...redisstore.Option) (err error) {
	t.Helper()
	require.Eventually(t, func() bool {
		var store *redisstore.Engine
		if store, err = redisstore.NewEngine(client, opts...); err == nil {
			store.Close()
		}
		return err != nil
	}, patience, time.Millisecond)
	return err
}
