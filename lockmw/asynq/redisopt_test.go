package asynqmw_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const sesame = "open-sesame"

// runsAt enqueues a task at a deployment, and runs it there under a lock.
func runsAt(t *testing.T, d redisstore.Deployment) {
	t.Helper()
	redis, err := asynqmw.RedisOpt(d)
	require.NoError(t, err)
	store, err := redisstore.Open(t.Context(), d)
	require.NoError(t, err)
	defer store.Close()
	keeper := newKeeper(t, store, renewer.Config{})
	defer func() { assert.NoError(t, keeper.Shutdown(t.Context())) }()
	ran := make(chan error, 1)
	locks, config := asynqmw.Configure(keeper, redis, workers(2))
	defer func() { assert.NoError(t, locks.Close()) }()
	server := asynq.NewServer(redis, config)
	require.NoError(t, server.Start(asynqmw.Wrap(locks, byUser,
		func(ctx context.Context, _ order) error {
			ran <- context.Cause(ctx)
			return nil
		})))
	defer server.Shutdown()
	client := asynq.NewClient(redis)
	defer func() { assert.NoError(t, client.Close()) }()
	_, err = client.Enqueue(task(`{"User":"u"}`))
	require.NoError(t, err)
	assert.NoError(t, <-ran)
}

func TestRedisOptOfOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("ACL", "SETUSER", "both", "on", ">"+sesame, "~*", "&*", "+@all").
		Error())
	require.NoError(t, server.Do("ACL", "SETUSER", "default", "-@all", "+acl", "+ping").Error())
	d, err := redisstore.FromURL("redis://both:" + sesame + "@" + server.Addr() + "/3")
	require.NoError(t, err)
	runsAt(t, d)
	look := server.Client(t, func(o *rueidis.ClientOption) {
		o.Username, o.Password, o.SelectDB = "both", sesame, 3
	})
	n, err := look.Do(t.Context(), look.B().Exists().Key("asynq:queues").Build()).AsInt64()
	require.NoError(t, err)
	assert.Equal(t, int64(1), n)
}

func TestRedisOptOfTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	d := redisstore.Deployment{Option: server.TLSOption()}
	pair, err := tls.LoadX509KeyPair(server.Pair())
	require.NoError(t, err)
	d.Option.TLSConfig.Certificates = []tls.Certificate{pair}
	runsAt(t, d)
}

func TestRedisOptOfSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	for _, server := range s.Sentinels {
		for _, words := range [][]string{
			{"ACL", "SETUSER", "asker", "on", ">" + sesame, "~*", "&*", "+@all"},
			{"ACL", "SETUSER", "default", "off"},
		} {
			require.NoError(t, server.Do(words...).Error())
		}
	}
	d := redisstore.Deployment{Option: s.ClientOption()}
	d.Option.Sentinel.Username, d.Option.Sentinel.Password = "asker", sesame
	runsAt(t, d)
}

func TestRedisOptOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	d, err := redisstore.FromURL("redis://" + c.Masters[0].Addr() + "," + c.Masters[1].Addr() +
		"?cluster=true")
	require.NoError(t, err)
	runsAt(t, d)
}

// asynq uses a password that has been changed in its file, and a socket.
func TestRedisOptOfAPasswordThatChanges(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket)
	user := func(words ...string) {
		t.Helper()
		require.NoError(t, server.Do(append([]string{"ACL", "SETUSER", "both"}, words...)...).Error())
	}
	user("on", ">"+sesame, "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(sesame), 0o600))
	t.Setenv("LOCKBEAT_PASSWORD_FILE", file)
	for _, url := range []string{"redis://both@" + server.Addr(), "unix://both@" + socket} {
		t.Setenv("LOCKBEAT_URL", url)
		d, err := redisstore.FromEnv()
		require.NoError(t, err)
		opt, err := asynqmw.RedisOpt(d)
		require.NoError(t, err)
		client := asynq.NewClient(opt)
		require.NoError(t, client.Ping())
		user("resetpass", ">changed")
		require.NoError(t, os.WriteFile(file, []byte("changed"), 0o600))
		require.NoError(t, server.Do("CLIENT", "KILL", "USER", "both").Error())
		require.Eventually(t, func() bool { return client.Ping() == nil }, 10*time.Second,
			10*time.Millisecond)
		require.NoError(t, client.Close())
		runsAt(t, d)
		user("resetpass", ">"+sesame)
		require.NoError(t, os.WriteFile(file, []byte(sesame), 0o600))
	}
}

// What asynq can't do is said at once, with its field, and no password.
func TestRedisOptRefuses(t *testing.T) {
	t.Parallel()
	for says, edit := range map[string]func(*redisstore.Deployment){
		"InitAddress: is empty": func(d *redisstore.Deployment) { d.Option.InitAddress = nil },
		"InitAddress: has several hosts": func(d *redisstore.Deployment) {
			d.Option.InitAddress = []string{"a:1", "b:1"}
		},
		"Sentinel.MasterSet: is set": func(d *redisstore.Deployment) {
			d.Cluster, d.Option.Sentinel.MasterSet = true, "m"
		},
		"SelectDB: ": func(d *redisstore.Deployment) { d.Cluster, d.Option.SelectDB = true, 1 },
		"Sentinel.TLSConfig: ": func(d *redisstore.Deployment) {
			d.Option.Sentinel.MasterSet, d.Option.TLSConfig = "m", new(tls.Config)
		},
		"DialFn, DialCtxFn: ": func(d *redisstore.Deployment) {
			d.Option.DialCtxFn = func(
				context.Context, string, *net.Dialer, *tls.Config,
			) (net.Conn, error) {
				return nil, net.ErrClosed
			}
		},
	} {
		d, err := redisstore.FromURL("redis://:" + sesame + "@a")
		require.NoError(t, err)
		edit(&d)
		opt, err := asynqmw.RedisOpt(d)
		assert.Nil(t, opt)
		require.ErrorIs(t, err, renewer.ErrConfig)
		assert.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), sesame)
	}
}
