package redisstore_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// password is in no error, in no log and in no stored value.
const password = "hunter2"

// allow makes a user with the given rights on a server.
func allow(t *testing.T, server *redistest.Server, name string, rights ...string) {
	t.Helper()
	args := append([]string{"ACL", "SETUSER", name, "reset", "resetchannels", "on", ">" + password},
		rights...)
	require.NoError(t, server.Do(args...).Error())
}

// works takes, renews and frees a lock, and is woken by that.
func works(t *testing.T, store *redisstore.Engine) {
	t.Helper()
	w := newWatch(store, "works")
	defer w.stop()
	w.await(t, "set up")
	w.clear()
	mine(t, store, claim("works", "a", time.Minute))
	assert.Equal(t, contract.StatusTaken, acquire(t, store, claim("works", "b", time.Minute)).Status)
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold("works", "a", time.Hour)).Status)
	assert.Equal(t, contract.StatusHeld, release(t, store, hold("works", "a", 0)).Status)
	w.await(t, "released")
	assert.Empty(t, w.errors())
}

// storeBy makes a store on a client as recommended.
func storeBy(
	t *testing.T, option rueidis.ClientOption, opts ...redisstore.Option,
) *redisstore.Engine {
	t.Helper()
	option, err := redisstore.ClientOption(option, 15*time.Second)
	require.NoError(t, err)
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	store := storeOn(t, client, opts...)
	return store
}

// The rights that docs/redis.md gives for a cluster and for
// Sentinel are enough, on the locks' servers and on the Sentinels.
func TestLeastRightsOfADeployment(t *testing.T) {
	t.Parallel()
	all := []string{"~lockbeat:{*", "&lockbeat:{*"}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, 0)
		for _, m := range cluster.Masters {
			allow(t, m, "locks", append(all, clusterRights(m)...)...)
		}
		option := cluster.ClientOption()
		option.Username, option.Password = "locks", password
		works(t, storeBy(t, option))
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t)
		for _, d := range sentinel.Data {
			allow(t, d, "locks",
				append(
					all, strings.Fields(redisstore.Rights+" "+redisstore.RoleRight+" "+
						redisstore.WaitRight)...,
				)...)
		}
		for _, w := range sentinel.Sentinels {
			allow(t, w, "finder", strings.Fields(redisstore.SentinelRights)...)
		}
		option := sentinel.ClientOption()
		option.Username, option.Password = "locks", password
		option.Sentinel.Username, option.Sentinel.Password = "finder", password
		store := storeBy(t, option, redisstore.Replicas(1))
		works(t, store)
		require.NoError(t, sentinel.Failover())
		require.NoError(t, sentinel.Patience(false)) // else the former primary is demoted 8 s later
		require.NoError(t, sentinel.AwaitWhole())
		require.Eventually(t, func() bool {
			return acquire(t, store, claim("after", "a", time.Minute)).Status == contract.StatusHeld
		}, patience, 10*time.Millisecond, "a fail-over is noticed, too")
		require.NoError(t, sentinel.Patience(true))

		finders := strings.Fields(redisstore.SentinelRights)
		for i, right := range finders {
			if !strings.HasPrefix(right, "+sentinel") {
				continue
			}
			for _, w := range sentinel.Sentinels {
				// Redis 6.2 takes no single subcommand away.
				allow(t, w, "finder", slices.Concat(finders[:i], finders[i+1:])...)
			}
			_, err := rueidis.NewClient(option)
			require.ErrorContains(t, err, "NOPERM", "%s is needed", right)
			assert.NotContains(t, redisreply.Chain(err), password)
			for _, w := range sentinel.Sentinels {
				require.NoError(t, w.Do("ACL", "SETUSER", "finder", right).Error())
			}
		}
		for _, d := range sentinel.Data {
			require.Eventually(t, func() bool { // one that was demoted has closed its connections
				return d.Do("ACL", "SETUSER", "locks", "-role").Error() == nil
			}, patience, 10*time.Millisecond)
		}
		_, err := rueidis.NewClient(option)
		require.ErrorContains(t, err, "NOPERM")
		assert.NotContains(t, redisreply.Chain(err), password)
	})
}

// Whatever goes wrong, nothing that we say shows the password.
func TestPasswordsStaySecret(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	s.user(t, redisstore.DefaultPrefix, strings.Fields(redisstore.Rights)...)
	s.ok(t, "ACL", "SETUSER", "locks", ">"+password)
	client := s.client(t, func(o *rueidis.ClientOption) {
		o.Username, o.Password = "locks", password
	})
	s.ok(t, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	s.ok(t, "ACL", "SETUSER", "locks", "+config|get")
	var said logged
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store := storeOn(t, client, redisstore.Log(log))
	keeper, err := renewer.New(store,
		renewer.Config{TTL: time.Second, Observer: renewer.NewLogObserver(log)})
	require.NoError(t, err)
	lease, err := keeper.Acquire(t.Context(), renewer.Request{Name: "held"})
	require.NoError(t, err)
	held := s.get(t, redisstore.LeaseKey(redisstore.DefaultPrefix, "held"))
	w := newWatch(store, "watched")
	defer w.stop()
	w.await(t, "set up")

	tell := func(err error) {
		t.Helper()
		require.Error(t, err)
		_, _ = said.Write([]byte(redisreply.Chain(err)))
	}
	ask := func() {
		t.Helper()
		tell(acquire(t, store, claim("a", "a", time.Minute)).Err)
		tell(renew(t, store, hold("a", "a", time.Minute)).Err)
		tell(release(t, store, hold("a", "a", 0)).Err)
		_, err := keeper.Acquire(t.Context(), renewer.Request{Name: "b", Try: true})
		tell(err)
	}
	s.ok(t, "ACL", "SETUSER", "locks", "-@all")
	ask()
	_, err = redisstore.NewEngine(client)
	tell(err)
	s.ok(t, "ACL", "SETUSER", "locks", "resetpass", ">changed")
	s.ok(t, "CLIENT", "KILL", "USER", "locks")
	ask()
	require.Eventually(t, func() bool { return len(w.errors()) > 0 }, patience, time.Millisecond)
	tell(w.errors()[0])
	_, err = rueidis.NewClient(func() rueidis.ClientOption {
		o := s.option
		o.Username, o.Password = "locks", password
		return o
	}())
	tell(err)
	<-lease.Context().Done()
	tell(lease.Release(context.Background()))
	require.NoError(t, redis.Restart())
	redis.Kill()
	ask()
	tell(keeper.Shutdown(within(t, time.Second/2)))

	for _, want := range []string{"NOPERM", "WRONGPASS", "maxmemory-policy", "refused"} {
		assert.Contains(t, said.String(), want, "it was said at all")
	}
	assert.NotContains(t, said.String(), password)
	assert.NotContains(t, held, password)
}
