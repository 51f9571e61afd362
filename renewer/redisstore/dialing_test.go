package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// throughLink returns a store behind a link, with a client that ClientOption
// has made for locks of a minute: it dials for 5 s.
func throughLink(t *testing.T) (*proxy.Proxy, *redisstore.Engine) {
	t.Helper()
	redis, s := startReal(t)
	link := proxy.Start(t, redis.Addr())
	client := s.client(t, func(o *rueidis.ClientOption) {
		o.InitAddress = []string{link.Addr()}
		var err error
		*o, err = redisstore.ClientOption(*o, time.Minute)
		require.NoError(t, err)
	})
	store, err := redisstore.NewEngine(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return link, store
}

// cut leaves the link's client without a connection, and has a caller with much
// patience make one, which never gets ready.
func cut(t *testing.T, link *proxy.Proxy, store *redisstore.Engine) {
	t.Helper()
	link.Blackhole(proxy.Both)
	link.Reset()
	require.Eventually(t, func() bool { return link.Conns() == 0 }, patience, time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			store.Renew(ctx, []contract.Hold{hold("other", "o", time.Minute)})
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool { return link.Conns() > 0 }, patience, time.Millisecond)
}

// rueidis has callers wait for the dial and the greeting of another without
// heeding their contexts, for up to Dialer.Timeout: a caller who wanted an
// answer within 50 ms waited for 5 s.
func TestAnothersDialOutlastsContext(t *testing.T) {
	t.Parallel()
	claims := func(n int) []contract.Claim {
		claims := make([]contract.Claim, n)
		for i := range claims {
			// of different TTLs, a command each
			claims[i] = claim("name", "a", time.Minute+time.Duration(i)*time.Second)
		}
		return claims
	}
	holds := []contract.Hold{hold("name", "a", time.Minute), hold("name", "a", 2*time.Minute)}
	for name, ask := range map[string]func(ctx context.Context, s *redisstore.Engine) error{
		"acquire": func(ctx context.Context, s *redisstore.Engine) error {
			return s.Acquire(ctx, claims(1))[0].Err
		},
		"acquire several": func(ctx context.Context, s *redisstore.Engine) error {
			return s.Acquire(ctx, claims(2))[1].Err
		},
		"release several": func(ctx context.Context, s *redisstore.Engine) error {
			return s.Release(ctx, holds)[1].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, store := throughLink(t)
			cut(t, link, store)
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				begun := time.Now()
				err := ask(ctx, store)
				took := time.Since(begun)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, took, 4*time.Second, "50 ms, not Dialer.Timeout (5 s)")
			}
		})
	}
}

// Nor does the caller who makes the connection wait for the greeting longer
// than its context says, even if that does not tell when it ends.
func TestOwnDialOutlastsContext(t *testing.T) {
	t.Parallel()
	link, store := throughLink(t)
	link.Blackhole(proxy.Both)
	link.Reset()
	require.Eventually(t, func() bool { return link.Conns() == 0 }, patience, time.Millisecond)
	require.Eventually(t, func() bool { // the first may hear of the reset
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		begun := time.Now()
		a := store.Renew(ctx, []contract.Hold{hold("name", "a", time.Minute)})[0]
		assert.Less(t, time.Since(begun), 4*time.Second)
		return errors.Is(a.Err, context.Canceled)
	}, patience, time.Millisecond)
	// And it leaves nothing behind that keeps others from trying again.
	link.HealReset()
	require.Eventually(t, func() bool {
		return renew(t, store, hold("name", "a", time.Minute)).Status == contract.StatusGone
	}, patience, time.Millisecond)
}

// ClientOption dials by the caller's own function, and else as rueidis would.
func TestClientOptionDials(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	var dials, open, oldDials atomic.Int32
	for name, edit := range map[string]func(*rueidis.ClientOption){
		"no function": func(*rueidis.ClientOption) {},
		"DialCtxFn":   countDials(&dials, &open),
		"DialFn": func(o *rueidis.ClientOption) {
			o.DialFn = func(addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				oldDials.Add(1)
				return d.Dial("tcp", addr)
			}
		},
		"DisableTCPNoDelay": func(o *rueidis.ClientOption) { o.DisableTCPNoDelay = true },
	} {
		client := s.client(t, edit, func(o *rueidis.ClientOption) {
			var err error
			*o, err = redisstore.ClientOption(*o, 15*time.Second)
			require.NoError(t, err)
		})
		ping := client.B().Ping().Build().ToPipe()
		require.NoError(t, client.Do(t.Context(), ping).Error(), name)
	}
	assert.Equal(t, int32(1), dials.Load())
	assert.Equal(t, int32(1), oldDials.Load())

	secured := redistest.StartTLS(t)
	option, err := redisstore.ClientOption(secured.TLSOption(), 15*time.Second)
	require.NoError(t, err)
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
}

// While a connection is being made, and for a while after, it is not quiet.
func TestItIsQuietAWhileAfterAConnection(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	option, err := redisstore.ClientOption(s.option, time.Minute)
	require.NoError(t, err)
	begun := time.Now()
	client := s.client(t, func(o *rueidis.ClientOption) { *o = option })
	assert.False(t, wire.Quiet(time.Since(begun)), "it was made since")
	require.Eventually(t, func() bool { return wire.Quiet(time.Nanosecond) }, patience,
		time.Microsecond)
	assert.True(t, wire.Counts(client))
	_, other := startReal(t)
	assert.False(t, wire.Counts(other.client(t)), "it dials by itself")
}
