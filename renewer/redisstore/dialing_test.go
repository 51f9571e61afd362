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

// linked returns a link to the server, and a client through it that ClientOption has made for locks
// of a TTL.
func (s server) linked(
	t *testing.T, ttl time.Duration, edit ...func(*rueidis.ClientOption),
) (*proxy.Proxy, rueidis.Client) {
	t.Helper()
	link := proxy.Start(t, s.option.InitAddress[0])
	return link, s.client(t, append(edit, func(o *rueidis.ClientOption) {
		o.InitAddress = []string{link.Addr()}
		var err error
		*o, err = redisstore.ClientOption(*o, ttl)
		require.NoError(t, err)
	})...)
}

// throughLink returns a store behind a link, for locks of a minute: its client dials for 5 s.
func throughLink(
	t *testing.T, edit ...func(*rueidis.ClientOption),
) (*proxy.Proxy, *redisstore.Engine) {
	t.Helper()
	_, s := startReal(t)
	link, client := s.linked(t, time.Minute, edit...)
	store := storeOn(t, client)
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
	// of different TTLs, a command each
	claims := []contract.Claim{claim("name", "a", time.Minute), claim("name", "a", time.Hour)}
	holds := []contract.Hold{hold("name", "a", time.Minute), hold("name", "a", time.Hour)}
	link, store := throughLink(t)
	cut(t, link, store)
	for name, ask := range map[string]func(context.Context) error{
		"acquire":         func(ctx context.Context) error { return store.Acquire(ctx, claims[:1])[0].Err },
		"acquire several": func(ctx context.Context) error { return store.Acquire(ctx, claims)[1].Err },
		"release several": func(ctx context.Context) error { return store.Release(ctx, holds)[1].Err },
	} {
		for range 3 {
			begun := time.Now()
			err := ask(within(t, 50*time.Millisecond))
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Less(t, time.Since(begun), 4*time.Second, "%s: 50 ms, not Dialer.Timeout (5 s)", name)
		}
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

// ClientOption dials by the caller's own function, and else as rueidis would. It counts what it
// dials: for a while after a connection was made it is not quiet.
func TestClientOptionDials(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	assert.False(t, wire.Counts(s.client(t)), "it dials by itself")
	var dials, oldDials atomic.Int32
	for name, edit := range map[string]func(*rueidis.ClientOption){
		"no function": func(*rueidis.ClientOption) {},
		"DialCtxFn": func(o *rueidis.ClientOption) {
			o.DialCtxFn = func(
				ctx context.Context, addr string, d *net.Dialer, _ *tls.Config,
			) (net.Conn, error) {
				dials.Add(1)
				return d.DialContext(ctx, "tcp", addr)
			}
		},
		"DialFn": func(o *rueidis.ClientOption) {
			o.DialFn = func(addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				oldDials.Add(1)
				return d.Dial("tcp", addr)
			}
		},
		"DisableTCPNoDelay": func(o *rueidis.ClientOption) { o.DisableTCPNoDelay = true },
		"TLS": func(o *rueidis.ClientOption) {
			*o = redistest.StartTLS(t).TLSOption()
			o.DisableTCPNoDelay = true
		},
	} {
		begun := time.Now()
		client := s.client(t, edit, func(o *rueidis.ClientOption) {
			var err error
			*o, err = redisstore.ClientOption(*o, 15*time.Second)
			require.NoError(t, err)
		})
		assert.False(t, wire.Quiet(time.Since(begun)+time.Minute), "it was made since")
		assert.True(t, wire.Counts(client))
		ping := client.B().Ping().Build().ToPipe()
		require.NoError(t, client.Do(t.Context(), ping).Error(), name)
	}
	assert.Equal(t, int32(1), dials.Load())
	assert.Equal(t, int32(1), oldDials.Load())
	require.Eventually(t, func() bool { return wire.Quiet(time.Nanosecond) }, patience,
		time.Microsecond)
}
