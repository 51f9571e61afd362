package redisstore_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// oneAddress is a primary and its replica, and links that lead to the primary,
// as a Service of Kubernetes does.
type oneAddress struct {
	first, second *redistest.Server
	links         []*proxy.Proxy
}

func startOneAddress(t *testing.T) *oneAddress {
	t.Helper()
	a := &oneAddress{
		first:  redistest.Start(t, "--repl-diskless-sync-delay", "0"),
		second: redistest.Start(t, "--repl-diskless-sync-delay", "0"),
	}
	require.NoError(t, a.second.Follow(a.first))
	return a
}

// option is that of a client behind a link of its own, as another process would
// be.
func (a *oneAddress) option(t *testing.T) rueidis.ClientOption {
	t.Helper()
	link := proxy.Start(t, a.first.Addr())
	a.links = append(a.links, link)
	return rueidis.ClientOption{InitAddress: []string{link.Addr()}, ForceSingleClient: true}
}

// demote makes the replica the primary, and the primary its replica, which
// keeps its connections.
func (a *oneAddress) demote(t *testing.T) {
	t.Helper()
	require.NoError(t, a.second.Do("REPLICAOF", "NO", "ONE").Error())
	require.NoError(t, a.first.Follow(a.second))
}

// turn has the links lead to the new primary.
func (a *oneAddress) turn(t *testing.T) {
	t.Helper()
	for _, link := range a.links {
		require.NoError(t, link.Turn(a.second.Addr()))
	}
}

// store is one by Open, or one by New on a client that ClientOption has
// completed.
func (a *oneAddress) store(t *testing.T, opened bool) *redisstore.Engine {
	t.Helper()
	option := a.option(t)
	var store *redisstore.Engine
	if opened {
		var err error
		store, err = redisstore.OpenEngine(t.Context(), redisstore.Deployment{Option: option})
		require.NoError(t, err)
	} else {
		option, err := redisstore.ClientOption(option, 15*time.Second)
		require.NoError(t, err)
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		store, err = redisstore.NewEngine(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
		require.NoError(t, err)
	}
	t.Cleanup(store.Close)
	return store
}

func (a *oneAddress) keeper(t *testing.T, opened bool) (*renewer.Keeper, *redisstore.Engine) {
	t.Helper()
	store := a.store(t, opened)
	return keeperOn(t, store,
		renewer.Config{TTL: 15 * time.Second, Poll: time.Second, Log: renewer.Silent}), store
}

// Behind one address the former primary kept its connections and answered
// READONLY, and locks were refused until the process was started anew.
func TestFailOverBehindOneAddress(t *testing.T) {
	t.Parallel()
	for name, opened := range map[string]bool{"Open": true, "New": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startOneAddress(t)
			keeper, _ := a.keeper(t, opened)
			held, err := keeper.Acquire(t.Context(), renewer.Request{Name: "held"})
			require.NoError(t, err)
			once := func(ctx context.Context) error {
				lease, err := keeper.Acquire(ctx, renewer.Request{Name: "once"})
				if err == nil {
					_ = lease.Release(ctx) // or it is freed behind a connection that was given up
				}
				return err
			}
			for range 40 { // so that lone requests have a connection of their own
				require.NoError(t, once(t.Context()))
			}
			waiting := make(chan error, 1)
			other, waiter := a.keeper(t, opened)
			go func() {
				lease, err := other.Acquire(context.WithoutCancel(t.Context()), renewer.Request{
					Name: "held",
				})
				if err == nil {
					err = lease.Release(context.WithoutCancel(t.Context()))
				}
				waiting <- err
			}()
			inLine := func(server *redistest.Server) func() bool {
				return func() bool {
					n, err := server.Do("ZCARD",
						redisstore.LineKey(redisstore.DefaultPrefix, "held")).AsInt64()
					return err == nil && n == 1
				}
			}
			require.Eventually(t, inLine(a.first), patience, 5*time.Millisecond)
			a.demote(t)
			require.Error(t, once(within(t, 200*time.Millisecond)), "a replica refuses")
			a.turn(t)
			require.NoError(t, once(within(t, patience)), "the primary is found")
			for range 100 {
				require.NoError(t, once(within(t, patience)), "by lone requests, too")
			}
			require.Eventually(t, inLine(a.second), patience, 5*time.Millisecond)
			require.Eventually(t, func() bool {
				channels, err := a.second.Do("PUBSUB", "CHANNELS",
					"*{"+waiter.Inbox()+"}:inbox").AsStrSlice()
				return err == nil && len(channels) == 1
			}, patience, 5*time.Millisecond, "the waiter hears its inbox at the primary")
			require.NoError(t, held.Err())
			require.NoError(t, held.Release(t.Context()))
			select {
			case err := <-waiting:
				require.NoError(t, err)
			case <-time.After(patience):
				t.Fatal("the waiter hears nothing")
			}
		})
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A server that is a replica for good costs a connection a second at most,
// however often it is asked. MASTERDOWN is a replica's answer, and LOADING is
// not.
func TestReplicaForGood(t *testing.T) {
	t.Parallel()
	for answer, most := range map[string]int64{
		"READONLY You can't write against a read only replica.":                   1,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is no.": 1,
		"LOADING Redis is loading the dataset in memory":                          0,
	} {
		t.Run(answer[:8], func(t *testing.T) {
			t.Parallel()
			var says atomic.Pointer[string]
			first := "LOADING " // by which New refuses no server
			says.Store(&first)
			var dials atomic.Int64
			addr := answering(t, func(words []string) string {
				switch words[0] {
				case "HELLO":
					return "-ERR unknown command 'HELLO'\r\n"
				case "PING":
					return "+PONG\r\n"
				case "EVAL", "EVALSHA":
					return "-" + *says.Load() + "\r\n"
				default:
					return "+OK\r\n"
				}
			})
			option, err := redisstore.ClientOption(rueidis.ClientOption{
				InitAddress: []string{addr}, ForceSingleClient: true,
				DialCtxFn: func(
					ctx context.Context, addr string, d *net.Dialer, _ *tls.Config,
				) (net.Conn, error) {
					dials.Add(1)
					return d.DialContext(ctx, "tcp", addr)
				},
			}, time.Minute)
			require.NoError(t, err)
			client, err := rueidis.NewClient(option)
			require.NoError(t, err)
			t.Cleanup(client.Close)
			store := storeOn(t, client)
			says.Store(&answer)
			before, begun := dials.Load(), time.Now()
			for range 200 {
				a := renew(t, store, hold("a", "a", time.Minute))
				assert.Equal(t, contract.StatusUnknown, a.Status)
			}
			seconds := int64(time.Since(begun)/time.Second) + 1
			assert.LessOrEqual(t, dials.Load()-before, most*seconds)
			if most > 0 {
				assert.Positive(t, dials.Load()-before)
			}
		})
	}
}
