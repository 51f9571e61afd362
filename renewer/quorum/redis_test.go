package quorum_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

// patience is how long a test waits for what should come soon.
const patience = 10 * time.Second

// redisTTL is that of leases on real servers.
const redisTTL = 2 * time.Second

func servers(t testing.TB, n int) (all []*redistest.Server) {
	t.Helper()
	for range n {
		all = append(all, redistest.Start(t))
	}
	return all
}

// onRedis is a store on a server as a program for locks of a TTL would have it.
func onRedis(
	t testing.TB, server *redistest.Server, ttl time.Duration, edit func(*rueidis.ClientOption),
	opts ...redisstore.Option,
) *redisstore.Store {
	t.Helper()
	option := server.ClientOption()
	if edit != nil {
		edit(&option)
	}
	var store *redisstore.Store
	var err error
	// a busy machine may need more than one attempt of the time that suits so
	// short a TTL
	require.Eventually(t, func() bool {
		store, err = redisstore.Open(context.Background(),
			redisstore.Deployment{Option: option, TTL: ttl}, opts...)
		return err == nil
	}, patience, 5*time.Millisecond, "%v", &err)
	t.Cleanup(func() {
		_ = server.Cont() // fails only if it has been killed
		store.Close()
	})
	return store
}

// overRedis is a quorum on servers, which ends before them.
func overRedis(
	t testing.TB, all []*redistest.Server, ttl time.Duration, opts ...quorum.Option,
) *quorum.Engine {
	t.Helper()
	var nodes []contract.Store
	for _, server := range all {
		nodes = append(nodes, onRedis(t, server, ttl, nil).Engine())
	}
	s, err := quorum.NewEngine(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func keeperOn(t testing.TB, s renewer.Store, cfg renewer.Config) *renewer.Keeper {
	t.Helper()
	cfg.Log = renewer.Silent
	k, err := renewer.New(s, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = k.Shutdown(ctx) // some tests leave servers dead
	})
	return k
}

func TestConformanceOfRedis(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	all := servers(t, 3)
	var cases atomic.Int32
	for name, mixed := range map[string]bool{
		"three servers":          false,
		"two servers and memory": true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				prefix := "case" + strconv.Itoa(int(cases.Add(1))) + ":"
				var nodes []contract.Store
				for _, server := range all {
					nodes = append(nodes, onRedis(t, server, 15*time.Second, nil,
						redisstore.Prefix(prefix)).Engine())
				}
				if mixed {
					nodes[2] = memory.New().Engine()
				}
				s, err := quorum.NewEngine(nodes)
				require.NoError(t, err)
				t.Cleanup(s.Close)
				f := storetest.Fixture{Store: s, Several: true, NoLimits: true}
				if !mixed { // memory has no server to meddle with
					meddle := func(name string, args ...string) {
						for _, server := range all {
							command := append([]string{args[0], prefix + "{" + name + "}"}, args[1:]...)
							assert.NoError(t, server.Do(command...).Error())
						}
					}
					f.Delete = func(name string) { meddle(name, "DEL") }
					f.Overwrite = func(name string) {
						meddle(name, "SET", "somebody else", "PX", "60000")
					}
				}
				return f
			})
		})
	}
}

// leases are the keys of leases on a server.
func leases(t *testing.T, server *redistest.Server) (keys []string) {
	t.Helper()
	all, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	for _, k := range all {
		if !strings.HasSuffix(k, ":fence") && !strings.Contains(k, "}:mark") {
			keys = append(keys, k)
		}
	}
	return keys
}

// With two of three servers frozen no caller hears that the lock is busy, and
// each hears in time. Nothing is left when the servers go on.
func TestNothingLeftBehindOnFrozenServers(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	k := keeperOn(t, overRedis(t, all, redisTTL), renewer.Config{TTL: redisTTL})
	warm, err := k.Acquire(t.Context(), renewer.Request{Name: "warm-up"})
	require.NoError(t, err)
	require.NoError(t, warm.Release(t.Context()))
	require.NoError(t, all[0].Stop())
	require.NoError(t, all[1].Stop())
	for i := range 5 {
		begun := time.Now()
		_, err := k.Acquire(t.Context(), renewer.Request{Name: fmt.Sprint("n", i), Try: true})
		require.ErrorIs(t, err, renewer.ErrUnavailable)
		assert.Less(t, time.Since(begun), k.Config().RequestTimeout+3*time.Second)
	}
	require.NoError(t, all[0].Cont())
	require.NoError(t, all[1].Cont())
	require.Eventually(t, func() bool {
		n := 0
		for _, server := range all {
			n += len(leases(t, server))
		}
		return n == 0
	}, patience, 5*time.Millisecond)
	l, err := k.Acquire(t.Context(), renewer.Request{Name: "n0"})
	require.NoError(t, err)
	require.NoError(t, l.Release(t.Context()))
}

// Real servers are compared by their names, and found to be the same by what is
// on them. By other clients, addresses and prefixes, and without names: still
// no majority of independent servers.
func TestOneServerGivenTwice(t *testing.T) {
	t.Parallel()
	all := servers(t, 2)
	node := func(x int, opts ...redisstore.Option) contract.Store {
		node := onRedis(t, all[x], redisTTL, nil, opts...).Engine()
		server := node.(interface{ Server() string })
		require.Eventually(t, func() bool { return server.Server() != "" }, patience,
			5*time.Millisecond)
		return node
	}
	_, err := quorum.NewEngine([]contract.Store{node(0), node(1), node(0, redisstore.Prefix("other:"))})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "numbers 1 and 3 are the same server; give each once")
	s, err := quorum.NewEngine([]contract.Store{node(0), node(1), memory.New().Engine()})
	require.NoError(t, err)
	s.Close()
}

func TestMixedQuorumsOnRedis(t *testing.T) {
	t.Parallel()
	const ttl = time.Minute // so that no check is given up
	all := servers(t, 4)
	overRedis(t, all[:3], ttl, quorum.Names("a", "b", "c"))
	store := func(i int) contract.Store { return onRedis(t, all[i], ttl, nil).Engine() }
	_, err := quorum.NewEngine([]contract.Store{store(0), store(1), store(3)}, quorum.Names("a", "b", "d"))
	require.ErrorIs(t, err, quorum.ErrMixed)
	assert.Empty(t, leases(t, all[3]))
	_, err = quorum.NewEngine([]contract.Store{store(3), store(3), store(3)}, quorum.Names("d", "e", "f"))
	require.ErrorContains(t, err, "are the same server")
	assert.Empty(t, leases(t, all[3]))
	s := overRedis(t, all[:3], ttl, quorum.Names("a", "b", "c"))
	require.NoError(t, s.Check(t.Context()))
	all[0].Kill()
	all[1].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.ErrorIs(t, s.Check(ctx), renewer.ErrUnavailable)
}
