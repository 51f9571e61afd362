//go:build unix

package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// node is what one process would have: a client, a store and a keeper.
type node struct {
	cutShort bool // the test has shut the keeper down under operations
	server   *redistest.Server
	link     *proxy.Proxy // between it and the server
	keeper   *renewer.Keeper
	beats    *beats
}

// join makes a node with a link of its own.
func join(
	t *testing.T, server *redistest.Server, cfg renewer.Config, edit ...func(*rueidis.ClientOption),
) *node {
	t.Helper()
	return joinBy(t, server, proxy.Start(t, server.Addr()), cfg, edit...)
}

// joinBy makes a node on a link. Its faults are over when the test
// ends, and its keeper must shut down in order then.
func joinBy(
	t *testing.T, server *redistest.Server, link *proxy.Proxy, cfg renewer.Config,
	edit ...func(*rueidis.ClientOption),
) *node {
	t.Helper()
	option := server.ClientOption()
	option.InitAddress = []string{link.Addr()}
	for _, f := range edit {
		f(&option)
	}
	option, err := redisstore.ClientOption(option, cfg.TTL)
	require.NoError(t, err)
	client := connect(t, option)
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
	require.NoError(t, err)
	n := &node{server: server, link: link, beats: newBeats()}
	cfg.Observer = n.beats
	n.keeper, err = renewer.New(store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		link.Refuse(false)
		link.Delay(0)
		link.DropMatching(nil)
		link.HealReset()
		_ = server.Cont() // fails only if it has been killed
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		// else it is what the test's own shutdown came to
		if err := n.keeper.Shutdown(ctx); !t.Failed() && !n.cutShort {
			assert.NoError(t, err)
		}
		store.Close()
		client.Close()
	})
	return n
}

// connect makes a client: a busy machine may need more than one attempt
// of the time that suits a short TTL.
func connect(t *testing.T, option rueidis.ClientOption) (client rueidis.Client) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		client, err = rueidis.NewClient(option)
		return err == nil
	}, patience, 5*time.Millisecond, "%v", &err)
	return client
}

func (n *node) acquire(t *testing.T, name string, opts ...renewer.Option) *renewer.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	lease, err := n.keeper.Acquire(ctx, name, opts...)
	require.NoError(t, err)
	return lease
}

// about tells requests that concern a lock from others, for a proxy.
func about(name string) func([]byte) bool {
	return func(request []byte) bool { return bytes.Contains(request, []byte(key(name))) }
}

// warm takes and frees a lock, so that the server knows the scripts
// and later requests take one round trip. A busy machine may need more than one release.
func (n *node) warm(t *testing.T) {
	t.Helper()
	for {
		err := n.acquire(t, "warm-up").Release(t.Context())
		if !errors.Is(err, renewer.ErrUnavailable) {
			require.NoError(t, err)
			return
		}
	}
}

// got is the end of an Acquire in the background.
type got struct {
	lease *renewer.Lease
	at    time.Time
	err   error
}

// seek acquires in the background.
func (n *node) seek(ctx context.Context, name string, opts ...renewer.Option) <-chan got {
	c := make(chan got, 1)
	go func() {
		lease, err := n.keeper.Acquire(ctx, name, opts...)
		c <- got{lease, time.Now(), err}
		close(c)
	}()
	return c
}

// beats notes a keeper's heartbeats, for a test that waits for them.
type beats struct {
	renewer.NopObserver
	all chan renewer.Renewed
}

func newBeats() *beats { return &beats{all: make(chan renewer.Renewed, 1024)} }

// Renewed drops what nobody waits for.
func (b *beats) Renewed(_ context.Context, r renewer.Renewed) {
	select {
	case b.all <- r:
	default:
	}
}

// forget drops what has been heard so far.
func (b *beats) forget() {
	for len(b.all) > 0 {
		<-b.all
	}
}

// failed waits for n heartbeats from now on that bring no answer, and returns the last.
func (b *beats) failed(t *testing.T, n int) renewer.Renewed {
	t.Helper()
	return b.await(t, n, func(r renewer.Renewed) bool { return r.Failed > 0 })
}

// confirmed waits for n heartbeats from now on that renew every lease.
func (b *beats) confirmed(t *testing.T, n int) {
	t.Helper()
	b.await(t, n, func(r renewer.Renewed) bool { return r.OK == r.Leases })
}

func (b *beats) await(t *testing.T, n int, is func(renewer.Renewed) bool) (last renewer.Renewed) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	b.forget()
	for n > 0 {
		select {
		case last = <-b.all:
			if is(last) {
				n--
			}
		case <-timeout.C:
			require.FailNow(t, "the heartbeats waited for never came")
		}
	}
	return last
}

// ended waits for a lease's context to end and returns how it was lost.
func ended(t *testing.T, lease *renewer.Lease) *renewer.LostError {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		require.FailNow(t, "the context has not ended", lease.Name())
	}
	cause := context.Cause(lease.Context())
	var lost *renewer.LostError
	require.ErrorAs(t, cause, &lost)
	require.ErrorIs(t, cause, renewer.ErrLost)
	require.False(t, lease.Valid())
	return lost
}
