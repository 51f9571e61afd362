package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

// direct returns a store through a link with which requests of lone callers go directly by now.
func direct(
	t *testing.T, edit ...func(*rueidis.ClientOption),
) (*proxy.Proxy, server, *redisstore.Store) {
	t.Helper()
	redis, s := startReal(t)
	link := proxy.Start(t, redis.Addr())
	s.option.InitAddress = []string{link.Addr()}
	for _, e := range edit {
		e(&s.option)
	}
	return link, s, s.direct(t)
}

func (s server) direct(t *testing.T) *redisstore.Store {
	t.Helper()
	option, err := redisstore.ClientOption(s.option, time.Minute)
	require.NoError(t, err)
	s.option = option
	store := s.store(t, redisstore.WriteTimeout(option.ConnWriteTimeout))
	warm(t, store)
	return store
}

// warm makes as many requests as must have been alone for the next to go directly.
func warm(t *testing.T, store *redisstore.Store) {
	t.Helper()
	for range redisstore.WarmUp {
		lone(t, store)
	}
}

func lone(t *testing.T, store *redisstore.Store) {
	t.Helper()
	mine(t, store, claim("warm", "a", time.Minute))
	release(t, store, hold("warm", "a", 0))
}

// A lone caller's requests have a connection of their own, and heartbeats do not.
func TestOneConnectionForLoneCallers(t *testing.T) {
	t.Parallel()
	link, _, store := direct(t)
	require.Equal(t, 2, link.Conns())
	lone(t, store)
	renew(t, store, hold("other", "a", time.Minute))
	warm(t, store)
	require.Equal(t, 2, link.Conns())
}

// Each of two callers who meet has a connection of its own, and no third one has.
func TestTwoCallersGoDirectly(t *testing.T) {
	t.Parallel()
	link, _, store := direct(t)
	link.Delay(time.Millisecond) // or they might not meet
	for _, callers := range []int{2, 8} {
		for range redisstore.WarmUp {
			crowd(t, store, callers)
		}
		require.Equal(t, 3, link.Conns(), "%d callers", callers)
	}
}

// crowd has many callers acquire and release at once.
func crowd(t *testing.T, store *redisstore.Store, n int) {
	t.Helper()
	done := make(chan error, n)
	for i := range n {
		go func() {
			name := "crowd" + strconv.Itoa(i)
			g := store.Acquire(t.Context(), []renewer.Claim{claim(name, "a", time.Minute)})[0]
			a := store.Release(t.Context(), []renewer.Hold{hold(name, "a", 0)})[0]
			done <- errors.Join(g.Err, a.Err)
		}()
	}
	for range n {
		require.NoError(t, <-done)
	}
}

// A store that does not know how long its client waits for an answer finds out.
func TestOneConnectionForLoneCallersWithoutWriteTimeout(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	link := proxy.Start(t, redis.Addr())
	s.option.InitAddress = []string{link.Addr()}
	option, err := redisstore.ClientOption(s.option, time.Minute)
	require.NoError(t, err)
	s.option = option
	store := s.store(t)
	warm(t, store)
	leaves(t, link, store, soonCancelled)
	assert.Equal(t, 2, link.Conns())
	link.HealReset()
}

// A caller who uses the client for other commands too keeps one connection for all.
func TestOneConnectionForAll(t *testing.T) {
	t.Parallel()
	link, _, store := direct(t, func(o *rueidis.ClientOption) { o.AlwaysPipelining = true })
	lone(t, store)
	require.Equal(t, 1, link.Conns())
}

// A lone caller whose server does not answer returns when its context ends, with or without a
// deadline, and another one is served as soon as the server is back.
func TestALoneCallerLeaves(t *testing.T) {
	t.Parallel()
	link, _, store := direct(t)
	for what, ending := range map[string]ending{
		"a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, soon)
		},
		"no deadline": soonCancelled,
	} {
		t.Log(what)
		leaves(t, link, store, ending)
		link.HealReset()
		require.Eventually(t, func() bool {
			g := store.Acquire(t.Context(), []renewer.Claim{claim("b", "a", time.Minute)})[0]
			return g.Status == renewer.StatusHeld
		}, patience, time.Millisecond)
		warm(t, store)
	}
}

// soon is time enough to send a request.
const soon = 300 * time.Millisecond

// ending makes a context that ends soon.
type ending func(context.Context) (context.Context, context.CancelFunc)

func soonCancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(soon, cancel)
	return ctx, cancel
}

// leaves has a caller ask through a link that is dead, and leave when its context ends.
func leaves(t *testing.T, link *proxy.Proxy, store *redisstore.Store, end ending) {
	t.Helper()
	link.Blackhole(proxy.Both)
	ctx, cancel := end(t.Context())
	defer cancel()
	begun := time.Now()
	g := store.Acquire(ctx, []renewer.Claim{claim("a", "a", time.Minute)})[0]
	assert.ErrorIs(t, g.Err, ctx.Err())
	assert.Less(t, time.Since(begun), 4*time.Second, "not ConnWriteTimeout (7.5 s)")
	assert.False(t, g.Unsent)
}

// A caller that leaves is cut off, and neither one at the same time, on another connection, nor one
// of those after it, who may have its connection.
func TestNoOtherCallerIsCutOff(t *testing.T) {
	t.Parallel()
	_, _, store := direct(t)
	var over atomic.Bool
	var beside sync.WaitGroup
	beside.Go(func() {
		for !over.Load() {
			name := []renewer.Claim{claim("beside", "b", time.Minute)}
			assert.NoError(t, store.Acquire(t.Context(), name)[0].Err)
			release := []renewer.Hold{hold("beside", "b", 0)}
			assert.NoError(t, store.Release(t.Context(), release)[0].Err)
		}
	})
	defer beside.Wait()
	defer over.Store(true)
	left := 0
	for range suite.Size(250, 1000) {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(rand.N(400))*time.Microsecond, cancel)
		g := store.Acquire(ctx, []renewer.Claim{claim("a", "a", time.Minute)})[0]
		if g.Err != nil {
			require.ErrorIs(t, g.Err, context.Canceled)
			left++
		}
		lone(t, store) // succeeds
		timer.Stop()
		cancel()
	}
	t.Log(left, "callers have left")
	require.NotZero(t, left)
}

// Callers who leave while their questions are under way cost a connection each, of which the next
// caller waited for the dial. The first of them costs one now, and the others share another.
func TestCallersWhoLeaveDoNotCostAConnectionEach(t *testing.T) {
	t.Parallel()
	link, s, store := direct(t)
	link.DropReplyTo(func(request []byte) bool {
		return strings.Contains(string(request), "{a}")
	}, math.MaxInt, proxy.ThenMute)
	received := func() int {
		info, err := s.do(t, "INFO", "stats").ToString()
		require.NoError(t, err)
		_, n, _ := strings.Cut(info, "total_connections_received:")
		n, _, _ = strings.Cut(n, "\r\n")
		all, err := strconv.Atoi(n)
		require.NoError(t, err)
		return all
	}
	before := received()
	const callers = 3 * redisstore.WarmUp
	for range callers {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		g := store.Acquire(ctx, []renewer.Claim{claim("a", "a", time.Minute)})[0]
		require.ErrorIs(t, g.Err, context.Canceled)
	}
	assert.LessOrEqual(t, received()-before, callers/redisstore.WarmUp)
	link.HealReset()
}

// The connection of lone callers has ended while none of them used it: the next does not notice.
func TestAnIdleConnectionHasEnded(t *testing.T) {
	t.Parallel()
	for what, start := range map[string]func(t *testing.T) server{
		"in clear": func(t *testing.T) server {
			_, s := startReal(t)
			return s
		},
		"over TLS": func(t *testing.T) server {
			redis := redistest.StartTLS(t, "redis.test")
			return server{option: redis.TLSOption(), admin: redis.Client(t)}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var open atomic.Int32
			s.option.DialCtxFn = countingSockets(&open)
			store := s.direct(t)
			for range 5 {
				before := open.Load()
				s.ok(t, "CLIENT", "KILL", "TYPE", "normal")
				killed := time.Now()
				require.Eventually(t, func() bool { // the end of the shared one has been read
					return open.Load() < before && time.Since(killed) > 10*redisstore.FreshFor
				}, patience, time.Millisecond)
				warm(t, store)
			}
		})
	}
}

// countingSockets dials, and counts the connections that are open.
func countingSockets(
	open *atomic.Int32,
) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(
		ctx context.Context, addr string, d *net.Dialer, secure *tls.Config,
	) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		socket := &countedSocket{TCPConn: conn.(*net.TCPConn), open: open}
		if secure != nil {
			return tls.Client(socket, secure), nil
		}
		return socket, nil
	}
}

type countedSocket struct {
	*net.TCPConn

	open *atomic.Int32
	once sync.Once
}

func (c *countedSocket) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.TCPConn.Close()
}

// A client whose connections don't tell whom they serve has no direct requests: they would not hear
// of their callers' ends.
func TestConnectionsThatAreNotOurs(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	link := proxy.Start(t, redis.Addr())
	s.option.InitAddress = []string{link.Addr()}
	store := s.store(t)
	warm(t, store)
	lone(t, store)
	leaves(t, link, store, soonCancelled)
	link.HealReset()
}

// Callers who leave at once are cleaned up behind, on another connection, which may overtake their
// requests. Those who stay did not wait for the lock of a caller who had gone until no request of
// his could come any more, nearly two seconds later.
func TestCallersWhoLeaveAtOnceHoldUpNobody(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	_, s := startReal(t)
	option, err := redisstore.ClientOption(s.option, 15*time.Second)
	require.NoError(t, err)
	s.option = option
	over := time.Now().Add(4 * time.Second)
	var wg sync.WaitGroup
	// The second of three clean-ups comes 5 ms behind. On a busy machine a request may take longer,
	// and be overtaken by that as well: then all four may be held up.
	var slow, heldUp atomic.Int64 // requests of longer than that; callers who stayed
	wg.Go(func() {
		for time.Now().Before(over) {
			begun := time.Now()
			assert.NoError(t, s.do(t, "PING").Error())
			if time.Since(begun) > 5*time.Millisecond {
				slow.Add(1)
			}
		}
	})
	for _, k := range s.keepers(t, 4) {
		wg.Go(func() {
			for i := 0; time.Now().Before(over); i++ {
				ctx, leave := context.WithCancel(t.Context())
				if i%3 != 0 {
					time.AfterFunc(rand.N(200*time.Microsecond), leave)
				}
				begun := time.Now()
				l, err := k.Acquire(ctx, fmt.Sprint("a", rand.N(2)))
				if i%3 == 0 {
					assert.NoError(t, err)
					if time.Since(begun) > 500*time.Millisecond {
						heldUp.Add(1)
					}
				}
				if err == nil {
					assert.NoError(t, l.Release(t.Context()))
				}
				leave()
			}
		})
	}
	wg.Wait()
	t.Logf("%d held up, %d slow requests", heldUp.Load(), slow.Load())
	assert.LessOrEqual(t, heldUp.Load(), 4*slow.Load())
}
