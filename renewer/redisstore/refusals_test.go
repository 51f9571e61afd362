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
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// What a real server answers while it can't do more: callers are refused with
// it, what is watched is heard again, and the lease that was there is renewed.
// A full memory and a replica are in faults_test.go.
func TestAServerThatRefusesForAWhile(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		begin, end func(*testing.T, *redistest.Server, server)
		overloaded bool
	}{
		"MISCONF": {
			begin:      func(t *testing.T, r *redistest.Server, _ server) { require.NoError(t, r.FillDisk()) },
			end:        func(t *testing.T, r *redistest.Server, _ server) { require.NoError(t, r.FreeDisk()) },
			overloaded: true,
		},
		"BUSY": {
			begin: func(t *testing.T, r *redistest.Server, s server) {
				s.ok(t, "CONFIG", "SET", "lua-time-limit", "1")
				endless := r.Client(t)
				go endless.Do(t.Context(), endless.B().Arbitrary("EVAL", "while true do end", "0").Build())
				require.Eventually(t, func() bool {
					err := s.do(t, "PING").Error()
					return err != nil && err.Error()[:4] == "BUSY"
				}, patience, time.Millisecond)
			},
			end:        func(t *testing.T, _ *redistest.Server, s server) { s.ok(t, "SCRIPT", "KILL") },
			overloaded: true,
		},
		"MASTERDOWN": {
			begin: func(t *testing.T, _ *redistest.Server, s server) {
				s.ok(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
				s.ok(t, "REPLICAOF", "127.0.0.1", "1")
			},
			end: func(t *testing.T, _ *redistest.Server, s server) { s.ok(t, "REPLICAOF", "NO", "ONE") },
		},
		"NOREPLICAS": {
			begin: func(t *testing.T, _ *redistest.Server, s server) {
				s.ok(t, "CONFIG", "SET", "min-replicas-to-write", "1")
			},
			end: func(t *testing.T, _ *redistest.Server, s server) {
				s.ok(t, "CONFIG", "SET", "min-replicas-to-write", "0")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, s := startReal(t)
			store := s.store(t)
			mine(t, store, claim("held", "a", time.Minute))
			w := newWatch(store, "held")
			defer w.stop()
			w.await(t, "set up")
			newWatch(store, "once").stop()

			state.begin(t, redis, s)
			unknown(t, store, true, name)
			g := acquire(t, store, claim("new", "a", time.Minute))
			if state.overloaded {
				require.ErrorIs(t, g.Err, renewer.ErrOverloaded)
			}
			late, err := redisstore.NewEngine(s.client(t))
			if err == nil {
				t.Cleanup(late.Close)
			} else {
				require.NotErrorIs(t, err, renewer.ErrRejected)
			}

			state.end(t, redis, s)
			require.Eventually(t, func() bool {
				return renew(t, store, hold("held", "a", time.Minute)).Status == contract.StatusHeld
			}, patience, time.Millisecond)
			waitedFor(t, store, "held")
			w.clear()
			require.Equal(t, contract.StatusHeld, release(t, store, hold("held", "a", 0)).Status)
			w.await(t, "released")
			mine(t, store, claim("new", "b", time.Minute))
		})
	}
}

// A server that takes no more clients refuses connections, and keeps those that
// there are.
func TestAServerWithTooManyClients(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	store := storeOn(t, s.client(t, func(o *rueidis.ClientOption) {
		o.PipelineMultiplex = -1 // else a renewal may be the first by one of several connections
	}))
	mine(t, store, claim("a", "a", time.Minute))
	s.ok(t, "CONFIG", "SET", "maxclients", "2") // the one that looks on, and the store's
	w := newWatch(store, "a")
	defer w.stop()
	require.Eventually(t, func() bool { return len(w.errors()) > 0 }, patience, time.Millisecond)
	require.Equal(t, contract.StatusHeld, renew(t, store, hold("a", "a", time.Minute)).Status)
	ctx := within(t, time.Second)
	_, err := redisstore.OpenEngine(ctx, redisstore.Deployment{
		Option: rueidis.ClientOption{InitAddress: []string{redis.Addr()}},
	})
	require.Error(t, err)
	assert.NotErrorIs(t, err, renewer.ErrConfig, "it may pass: %v", err)
	s.ok(t, "CONFIG", "SET", "maxclients", "100")
	w.await(t, "set up")
}
