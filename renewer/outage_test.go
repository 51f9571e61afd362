package renewer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// outageOf makes a keeper on a store with shards.
func outageOf(t *testing.T) (*renewer.Keeper, *shardedStore) {
	t.Helper()
	store := newShardedStore()
	k, err := renewer.New(store, renewer.Config{TTL: 15 * time.Second, Log: renewer.Silent})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Shutdown(t.Context()) })
	return k, store
}

func try(t *testing.T, k *renewer.Keeper, name string) error {
	t.Helper()
	l, err := k.Acquire(t.Context(), renewer.Request{Name: name, Try: true})
	if err != nil {
		return err
	}
	return l.Release(t.Context())
}

func TestAnOutageBeginsWithWhatFailsFirstAndEndsWithAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		assert.Zero(t, k.Outage("0:a"), "nobody has asked")
		store.Default(script.Acquire, script.Fail(errors.New("connection refused")))
		require.ErrorIs(t, try(t, k, "0:a"), renewer.ErrUnavailable)
		assert.Zero(t, k.Outage("0:a"), "it may be a fail-over")
		<-time.After(time.Minute)
		assert.Equal(t, time.Minute, k.Outage("0:a"))
		assert.Equal(t, time.Minute, k.Outage(""))
		assert.Zero(t, k.Outage("1:a"), "another shard, which nobody has asked")
		store.Default(script.Acquire, script.Pass())
		<-time.After(time.Second)
		assert.Zero(t, k.Outage("0:a"))
		require.NoError(t, try(t, k, "0:b"))
	})
}

// What a request hears that ran out of time says nothing if others were
// answered meanwhile.
func TestRequestsThatFailBesideOthersAreNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		store.Script(script.Acquire, script.Hang(), script.Pass())
		failed := make(chan error)
		go func() { failed <- try(t, k, "0:slow") }()
		synctest.Wait()
		require.NoError(t, try(t, k, "0:a"))
		require.ErrorIs(t, <-failed, renewer.ErrUnavailable)
		<-time.After(time.Minute)
		assert.Zero(t, k.Outage("0:a"))
	})
}

// A server that refuses is up, also one that says to heartbeats that it is busy.
func TestRefusalsAreNoOutage(t *testing.T) {
	t.Parallel()
	for _, up := range []error{renewer.ErrRejected, renewer.ErrOverloaded} {
		synctest.Test(t, func(t *testing.T) {
			k, store := outageOf(t)
			refusal := script.Fail(fmt.Errorf("the server says: %w", up))
			l := acquire(t, k, "0:held")
			store.Default(script.Renew, refusal)
			<-l.Context().Done()
			assert.Zero(t, k.Outage("0:a"))
			assert.Len(t, store.Calls(script.Acquire), 1, "nobody asks whether it is back")
			assert.ErrorIs(t, l.Release(t.Context()), renewer.ErrLost)
			store.Default(script.Acquire, refusal)
			require.ErrorIs(t, try(t, k, "0:a"), up)
			for range 20 {
				<-time.After(time.Second)
				require.ErrorIs(t, try(t, k, "0:a"), up)
			}
			assert.Zero(t, k.Outage("0:a"))
		})
	}
}

func TestHeartbeatsTellOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		l := acquire(t, k, "0:a")
		for _, op := range []script.Op{script.Renew, script.Acquire} {
			store.Default(op, script.Fail(errors.New("connection refused")))
		}
		<-l.Context().Done()
		assert.Greater(t, k.Outage("0:b"), k.Config().FailOver)
		store.Default(script.Renew, script.Pass())
		_ = l.Release(t.Context())
	})
}

// A caller who gives up tells nothing of the store.
func TestCallersWhoLeaveAreNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, store := outageOf(t)
		store.Default(script.Acquire, script.Hang())
		for range 20 {
			_, err := k.Acquire(within(t, time.Millisecond), renewer.Request{Name: "0:a"})
			require.Error(t, err)
			<-time.After(time.Second)
		}
		assert.Zero(t, k.Outage("0:a"))
	})
}

// paused carries questions out when it goes on, as a server does that stood
// still.
type paused struct {
	contract.Store
	goOn chan struct{}
}

func (p *paused) Engine() contract.Store { return p }

func (p *paused) Acquire(ctx context.Context, claims []contract.Claim) []contract.Grant {
	answers := make(chan []contract.Grant, 1)
	claims = slices.Clone(claims) // which are the caller's again once it has given up
	go func() {
		<-p.goOn
		answers <- p.Store.Acquire(context.WithoutCancel(ctx), claims)
	}()
	select {
	case grants := <-answers:
		return grants
	case <-ctx.Done():
		return []contract.Grant{{Err: ctx.Err()}}
	}
}

// Keepers ask a store that is away whether it is back, by claims. They were
// listed beside the callers' locks for as long as a request may take, once it
// was.
func TestWhoListsSeesNoProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := memory.New()
		s := &paused{kept.Engine(), make(chan struct{})}
		for range 10 {
			k, err := renewer.New(s, renewer.Config{Log: renewer.Silent})
			require.NoError(t, err)
			t.Cleanup(func() { _ = k.Shutdown(t.Context()) })
			go func() { _ = try(t, k, "a") }()
		}
		<-time.After(time.Minute)
		close(s.goOn)
		<-time.After(2 * time.Millisecond)
		for lock, err := range inspect.List(t.Context(), kept, nil) {
			require.NoError(t, err)
			assert.Equal(t, "a", lock.Name)
		}
	})
}

// A store may keep something of each name for a day, as a quorum does. So an
// outage, however long, has one name of a process's.
func TestProbesOfAnOutageHaveOneName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := outageOf(t)
		s.Default(script.Acquire, script.Fail(errDown))
		require.Error(t, try(t, k, "0:a"))
		<-time.After(time.Minute)
		names := make(map[string]int)
		for _, call := range s.Calls(script.Acquire) {
			names[call.Claims[0].Name]++
		}
		require.Len(t, names, 2, "the caller's, and the probes'")
	})
}
