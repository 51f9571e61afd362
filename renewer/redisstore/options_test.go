package redisstore_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// typedNil is a client type of which a nil can hide in the interface.
type typedNil struct{ rueidis.Client }

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	faulty := func(client rueidis.Client, says []string, opts ...redisstore.Option) {
		store, err := redisstore.NewEngine(client, opts...)
		assert.Nil(t, store)
		require.ErrorIs(t, err, renewer.ErrConfig)
		for _, s := range says {
			assert.ErrorContains(t, err, s)
		}
	}
	faulty(nil, []string{"client"})
	faulty((*typedNil)(nil), []string{"client"})
	faulty(nil, []string{"client", "Prefix", "FenceTTL", "WriteTimeout", "Log: "},
		redisstore.Prefix(""), redisstore.FenceTTL(999*time.Microsecond), redisstore.WriteTimeout(-1),
		redisstore.Log(nil))
	faulty(nil, []string{"FenceTTL", "1ms"}, redisstore.FenceTTL(0))
	faulty(nil, []string{"WriteTimeout"}, redisstore.WriteTimeout(0))
	for prefix, says := range map[string]string{
		"a{b}:": "", "a\n:": "", "a b:": "", "a?:": "", "[ab]:": "", `a\:`: "", strings.Repeat("x", 257) + ":": "",
		"*": "leave it out", "a:*:": "leave it out", "a": "add one",
	} {
		faulty(nil, []string{"Prefix", says}, redisstore.Prefix(prefix))
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	assert.Equal(t, 10*time.Second, s.store(t).Settle())
	store := s.store(t, nil, redisstore.Prefix("locks/:"), redisstore.FenceTTL(time.Hour),
		redisstore.WriteTimeout(3*time.Second))
	assert.Equal(t, 3*time.Second, store.Settle())
	assert.Equal(t, 6*time.Second,
		s.store(t, redisstore.Replicas(1), redisstore.WriteTimeout(3*time.Second)).Settle())
	mine(t, store, claim("a", "a", time.Minute))
	s.pttl(t, "locks/:{a}", minute-5000, minute)
	s.pttl(t, "locks/:{%}:mark", 60*minute-5000, 60*minute)
	assert.Equal(t, int64(2), s.number(t, "DBSIZE"))
}

func TestNewChangesNothing(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	s.store(t)
	assert.Zero(t, s.number(t, "DBSIZE"))
	info, err := s.do(t, "INFO", "persistence").ToString()
	require.NoError(t, err)
	assert.Contains(t, info, "rdb_changes_since_last_save:0", "nor for a moment")
}

func TestEvictionWarning(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	for policy, warns := range map[string]bool{
		"noeviction": false, "volatile-ttl": true,
		"allkeys-lru": true,
	} {
		s.ok(t, "CONFIG", "SET", "maxmemory-policy", policy)
		var log bytes.Buffer
		s.store(t, redisstore.Log(slog.New(slog.NewTextHandler(&log, nil))))
		assert.Equal(t, warns, bytes.Contains(log.Bytes(), []byte("level=WARN")), "%s: %s", policy,
			&log)
		assert.Equal(t, warns, bytes.Contains(log.Bytes(), []byte("maxmemory-policy="+policy)))
		assert.LessOrEqual(t, bytes.Count(log.Bytes(), []byte("\n")), 1)
	}
}

func TestTheDefaultLog(t *testing.T) {
	t.Parallel()
	require.Same(t, slog.Default(), redisstore.LogOf())
	require.Same(t, renewer.Silent, redisstore.LogOf(redisstore.Log(renewer.Silent)))
}

// A program whose server is set up well, and which loses nothing, prints
// nothing.
func TestAQuietProgramPrintsNothing(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	keeper, err := renewer.New(s.store(t, redisstore.Log(log)), renewer.Config{Log: log})
	require.NoError(t, err)
	lease, err := keeper.Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	_, err = keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
	require.ErrorIs(t, err, renewer.ErrBusy)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, keeper.Shutdown(t.Context()))
	require.Empty(t, out.String())
}

func TestClientOptionFills(t *testing.T) {
	t.Parallel()
	opt, err := redisstore.ClientOption(rueidis.ClientOption{InitAddress: []string{"x:1"}},
		6*time.Second)
	require.NoError(t, err)
	assert.Equal(t, []string{"x:1"}, opt.InitAddress)
	assert.True(t, opt.DisableAutoPipelining)
	assert.Equal(t, time.Minute, opt.BlockingPoolCleanup)
	assert.True(t, opt.DisableCache)
	assert.Equal(t, -1, opt.PipelineMultiplex)
	assert.Equal(t, 750*time.Millisecond, opt.ConnWriteTimeout)
	assert.Equal(t, time.Second, opt.Dialer.KeepAlive)
	assert.Equal(t, time.Second, opt.Dialer.Timeout)

	assert.Zero(t, opt.Sentinel, "there is none")
	opt, err = redisstore.ClientOption(rueidis.ClientOption{
		Sentinel: rueidis.SentinelOption{MasterSet: "m"},
	}, 6*time.Second)
	require.NoError(t, err)
	assert.Equal(t, time.Second, opt.Sentinel.Dialer.KeepAlive)
	assert.Equal(t, time.Second, opt.Sentinel.Dialer.Timeout)
	assert.Equal(t, 2*time.Second, opt.Sentinel.TopologyRefreshInterval)

	opt, err = redisstore.ClientOption(rueidis.ClientOption{}, time.Hour)
	require.NoError(t, err)
	assert.Equal(t, 10*time.Second, opt.ConnWriteTimeout, "never above rueidis' own defaults")
	assert.Equal(t, 5*time.Second, opt.Dialer.KeepAlive)
	assert.Equal(t, 5*time.Second, opt.Dialer.Timeout)

	opt, err = redisstore.ClientOption(rueidis.ClientOption{
		ConnWriteTimeout: 1500 * time.Millisecond,
	}, 6*time.Second)
	require.NoError(t, err)
	assert.Equal(t, 750*time.Millisecond, opt.Dialer.KeepAlive, "half of the TTL in all")

	opt, err = redisstore.ClientOption(rueidis.ClientOption{}, time.Millisecond)
	require.NoError(t, err, "what it fills in is never refused")
	assert.Equal(t, 10*time.Millisecond, opt.ConnWriteTimeout)

	mine := rueidis.ClientOption{
		PipelineMultiplex: 2, ConnWriteTimeout: 1400 * time.Millisecond,
		Dialer: net.Dialer{KeepAlive: 700 * time.Millisecond, Timeout: 300 * time.Millisecond},
	}
	opt, err = redisstore.ClientOption(mine, 6*time.Second)
	require.NoError(t, err)
	assert.Equal(t, mine.PipelineMultiplex, opt.PipelineMultiplex,
		"what the caller has set is kept")
	assert.Equal(t, mine.ConnWriteTimeout, opt.ConnWriteTimeout)
	assert.Equal(t, mine.Dialer.KeepAlive, opt.Dialer.KeepAlive)
	assert.Equal(t, mine.Dialer.Timeout, opt.Dialer.Timeout)
}

func TestClientOptionRefuses(t *testing.T) {
	t.Parallel()
	const ttl = 15 * time.Second
	for field, edit := range map[string]func(*rueidis.ClientOption){
		"ConnWriteTimeout: is 10s": func(o *rueidis.ClientOption) {
			o.ConnWriteTimeout = 10 * time.Second
		},
		"ConnWriteTimeout: is -1ns": func(o *rueidis.ClientOption) { o.ConnWriteTimeout = -1 },
		"Dialer.KeepAlive: is 3s": func(o *rueidis.ClientOption) {
			o.Dialer.KeepAlive = 3 * time.Second
		},
		"ConnWriteTimeout: is 8.5s": func(o *rueidis.ClientOption) {
			o.Dialer.KeepAlive, o.ConnWriteTimeout = 2500*time.Millisecond, 3500*time.Millisecond
		},
		"Dialer.KeepAlive: is -1ns": func(o *rueidis.ClientOption) { o.Dialer.KeepAlive = -1 },
		"Dialer.Timeout: is 5s": func(o *rueidis.ClientOption) {
			o.Dialer.Timeout = 5 * time.Second
		},
		"ReplicaOnly": func(o *rueidis.ClientOption) { o.ReplicaOnly = true },
		"SendToReplicas": func(o *rueidis.ClientOption) {
			o.SendToReplicas = func(rueidis.Completed) bool { return false }
		},
		"Standalone.ReplicaAddress": func(o *rueidis.ClientOption) {
			o.Standalone.ReplicaAddress = []string{"x:2"}
		},
		"ClientTrackingOptions": func(o *rueidis.ClientOption) {
			o.ClientTrackingOptions = []string{"BCAST"}
		},
		"OnInvalidations: the server": func(o *rueidis.ClientOption) {
			o.OnInvalidations = func([]rueidis.RedisMessage) {}
		},
		"Sentinel.Dialer.KeepAlive: is -1ns": func(o *rueidis.ClientOption) {
			o.Sentinel.MasterSet, o.Sentinel.Dialer.KeepAlive = "m", -1
		},
		"Sentinel.Dialer.Timeout: is 5s": func(o *rueidis.ClientOption) {
			o.Sentinel.MasterSet, o.Sentinel.Dialer.Timeout = "m", 5*time.Second
		},
		"set at most 3.75s, or leave it 0": func(o *rueidis.ClientOption) {
			o.ConnWriteTimeout = 4 * time.Second
		},
	} {
		var opt rueidis.ClientOption
		edit(&opt)
		_, err := redisstore.ClientOption(opt, ttl)
		require.ErrorIs(t, err, renewer.ErrConfig, field)
		assert.ErrorContains(t, err, field)
	}
	_, err := redisstore.ClientOption(rueidis.ClientOption{}, 999*time.Microsecond)
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, "ttl: is 999µs")

	_, err = redisstore.ClientOption(rueidis.ClientOption{
		ReplicaOnly: true, ConnWriteTimeout: time.Minute,
	}, ttl)
	for _, field := range []string{"ReplicaOnly", "ConnWriteTimeout"} {
		assert.ErrorContains(t, err, field, "all at once")
	}
}

// A connection that answers no more is given up within half of the TTL, so that
// a renewal has a new one in time.
func TestClientOptionNoticesADeadConnection(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second
	redis, s := startReal(t)
	option, err := redisstore.ClientOption(s.option, ttl)
	require.NoError(t, err)
	s.option = option
	client := s.client(t)
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
	require.NoError(t, redis.Stop())
	started := time.Now()
	err = client.Do(t.Context(), client.B().Ping().Build()).Error()
	assert.Error(t, err)
	assert.Less(t, time.Since(started), ttl/2+ttl/6, "half, and a share for a busy machine")
	require.NoError(t, redis.Cont())
}
