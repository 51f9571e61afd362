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

	internal "github.com/lockbeat/lockbeat/internal/contract"
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
	t.Run("a line of tasks is in the lock's slot", func(t *testing.T) {
		t.Parallel()
		store := s.store(t)
		for _, name := range []string{"order:1", "order:2", "a}b{c"} {
			mine(t, store, claim(name, "a", time.Hour))
			a := waiting(task("1"))
			a.Name.Text = name
			assert.Equal(t, ask, arrive(t, store, a))
			a.Task = task("2")
			assert.Equal(t, 0, arrive(t, store, a))
			got, err := store.Next(t.Context(), a.Name, 0, internal.TaskGranted, task("1"))
			require.NoError(t, err)
			assert.Equal(t, wakes(1, task("2")), got)
		}
	})
	var n atomic.Int32
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		return s.fixture(t, "case"+strconv.Itoa(int(n.Add(1)))+":")
	})
}

// Leases of many slots are freed in one call, by several goroutines of the client, which make their
// commands again where a server turns them away. Slots of one limit, which share their keys, are
// asked for, renewed and freed by one command.
func TestACallOfManySlotsOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	s := server{option: cluster.ClientOption()}.store(t)
	all := func(claims []contract.Claim, holds []contract.Hold) {
		for i, g := range s.Acquire(t.Context(), claims) {
			require.Equal(t, contract.StatusHeld, g.Status, "%d: %v", i, g.Err)
		}
		for _, ask := range []func(context.Context, []contract.Hold) []contract.Answer{s.Renew, s.Release} {
			for i, a := range ask(t.Context(), holds) {
				require.Equal(t, contract.StatusHeld, a.Status, "%d: %v", i, a.Err)
			}
		}
	}
	claims, holds := make([]contract.Claim, 300), make([]contract.Hold, 300)
	for i := range claims {
		claims[i] = claim(strconv.Itoa(i), "a", time.Minute)
		holds[i] = hold(strconv.Itoa(i), "a", time.Minute)
	}
	for range 3 {
		all(claims, holds)
	}
	calls := func() (calls int64) {
		for _, command := range []string{"eval", "evalsha"} {
			n, err := masterOf(t, cluster, "x").Calls(command)
			require.NoError(t, err)
			calls += n
		}
		return calls
	}
	claims, holds = claims[:10], holds[:10]
	for i := range claims {
		letter := string(rune('a' + i))
		claims[i], holds[i] = slotClaim("x", letter, 10), holdSlot("x", letter, time.Minute)
	}
	before := calls()
	all(claims, holds)
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
