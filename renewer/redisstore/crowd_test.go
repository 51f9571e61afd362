package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// latch keeps the answers of a server from a client while it is shut.
type latch struct {
	mu   sync.Mutex
	open chan struct{}
}

type latchedConn struct {
	net.Conn

	l *latch
}

func (c latchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.l.mu.Lock()
	open := c.l.open
	c.l.mu.Unlock()
	<-open
	return n, err
}

func newLatch() *latch {
	l := &latch{open: make(chan struct{})}
	close(l.open)
	return l
}

func (l *latch) shut() (open func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.open = c
	return sync.OnceFunc(func() { close(c) })
}

func (l *latch) dial(
	ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config,
) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return latchedConn{conn, l}, nil
}

// A crowd of callers asks for locks at once, and the server's answers are slow
// to come. Heartbeats and releases overtake those who wait for their turn, and
// for those who give up meanwhile nothing is ever sent.
func TestHeartbeatsAndReleasesOvertakeACrowd(t *testing.T) {
	t.Parallel()
	for what, most := range map[string]int{
		"sharing commands": redisstore.MostUnderWay,
		"each alone":       redisstore.MostAlone,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			l := newLatch()
			option, err := redisstore.ClientOption(s.option, time.Minute)
			require.NoError(t, err)
			option.DialCtxFn = l.dial
			s.option = option
			store := s.store(t)
			if most == redisstore.MostAlone {
				store.OneKeyAScript()
			}
			mine(t, store, claim("held", "a", time.Minute))
			mine(t, store, claim("done", "a", time.Minute))
			renew(t, store, hold("done", "a", time.Minute)) // so that the server knows the scripts
			release(t, store, hold("done", "a", 0))
			mine(t, store, claim("done", "a", time.Minute))
			lease := func(name string) string {
				return redisstore.LeaseKey(redisstore.DefaultPrefix, name)
			}
			locks := func() int { return int(s.number(t, "DBSIZE")) - 1 } // and the mark
			open := l.shut()
			defer open()

			const callers = 4000
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			var unsent atomic.Int64
			for i := range callers {
				wg.Go(func() {
					g := store.Acquire(ctx,
						[]contract.Claim{claim("crowd"+strconv.Itoa(i), "a", time.Minute)})[0]
					assert.ErrorIs(t, g.Err, context.Canceled)
					if errors.Is(g.Err, contract.ErrNotSent) {
						unsent.Add(1)
					}
				})
			}
			require.Eventually(t, func() bool {
				way, waiting := store.Acquiring(0).Under()
				return way == most && waiting == callers-most && locks() == most+2
			}, patience, 5*time.Millisecond, "as many are sent as may be")

			wg.Go(func() { store.Renew(ctx, []contract.Hold{hold("held", "a", time.Hour)}) })
			wg.Go(func() { store.Release(ctx, []contract.Hold{hold("done", "a", 0)}) })
			require.Eventually(t, func() bool {
				return s.number(t, "PTTL", lease("held")) > time.Minute.Milliseconds() &&
					s.number(t, "EXISTS", lease("done")) == 0
			}, patience, 5*time.Millisecond)

			cancel()
			wg.Wait()
			assert.EqualValues(t, callers-most, unsent.Load())
			open()
			assert.Equal(t, contract.StatusHeld,
				renew(t, store, hold("held", "a", time.Hour)).Status,
				"which the server answers after all others")
			assert.EqualValues(t, most+1,
				s.number(t, append([]string{"EXISTS"}, leases("crowd", callers)...)...)+s.number(t,
					"EXISTS", lease("held")))
		})
	}
}

// leases are the keys of so many locks, for a command.
func leases(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = redisstore.LeaseKey(redisstore.DefaultPrefix, name+strconv.Itoa(i))
	}
	return keys
}

// One call may ask for any number of locks: they pass in parts, and those that
// were not sent when its time was over say so.
func TestALargeCallPassesInParts(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	l := newLatch()
	// One connection: another would be dialled only now, and wait for the
	// latch.
	s.option.DialCtxFn, s.option.PipelineMultiplex = l.dial, -1
	store := s.store(t)
	mine(t, store, claim("first", "a", time.Minute)) // so that the server knows the script
	const n = 3 * redisstore.MostUnderWay
	claims := make([]contract.Claim, n)
	for i := range claims {
		claims[i] = claim("large"+strconv.Itoa(i), "a", time.Minute)
	}
	open := l.shut()
	defer open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answered := make(chan []contract.Grant, 1)
	go func() { answered <- store.Acquire(ctx, claims) }()
	sent := redisstore.MostUnderWay / redisstore.MaxKeys * redisstore.MaxKeys
	require.Eventually(t, func() bool {
		return s.number(t, "DBSIZE") == int64(sent+2)
	}, patience, 5*time.Millisecond)
	cancel()
	for i, g := range <-answered {
		assert.Equal(t, contract.StatusUnknown, g.Status)
		assert.Equal(t, i >= sent, errors.Is(g.Err, contract.ErrNotSent))
	}
	open()
	for _, g := range store.Acquire(t.Context(), claims) {
		require.Equal(t, contract.StatusHeld, g.Status, "%v", g.Err)
	}
}

// TestACrowdOnRealRedis has many callers take and free locks of their own at
// once. They need far fewer commands than there are questions, and each gets
// its own answer: tokens that rise, a refusal for who meets another's lock.
func TestACrowdOnRealRedis(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	lock, limit := claimOf("a", 1), claimOf("a", 2)
	limit.Limit = 3
	assert.True(t, store.Joins(lock, lock))
	assert.True(t, store.Joins(limit, limit))
	assert.False(t, store.Joins(lock, limit), "a group of both would be of no use to its callers")

	foreign := claim("taken", "x", time.Minute)
	mine(t, store, foreign)

	const callers, rounds = 200, 5
	before := calls(t, s, "evalsha") + calls(t, s, "eval")
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			last := int64(0)
			for r := range rounds {
				c := claimOf("crowd:"+strconv.Itoa(i), 100*i+r)
				g := store.Acquire(t.Context(), []contract.Claim{c})[0]
				if !assert.Equal(t, contract.StatusHeld, g.Status, "%v", g.Err) {
					return
				}
				assert.Greater(t, g.Fence, last)
				last = g.Fence
				if r == 0 {
					refused := store.Acquire(t.Context(),
						[]contract.Claim{claimOf("taken", 100*i+r)})[0]
					assert.Equal(t, contract.StatusTaken, refused.Status)
					assert.Equal(t, foreign.Holder.Node, refused.Holder.Node)
				}
				a := store.Release(t.Context(), []contract.Hold{{Name: c.Name, Owner: c.Owner}})[0]
				assert.Equal(t, contract.StatusHeld, a.Status, "%v", a.Err)
				if r == 1 {
					a = store.Release(t.Context(),
						[]contract.Hold{{Name: c.Name, Owner: c.Owner}})[0]
					assert.Equal(t, contract.StatusGone, a.Status)
				}
			}
		})
	}
	wg.Wait()
	used := calls(t, s, "evalsha") + calls(t, s, "eval") - before
	assert.Less(t, used, int64(callers*rounds), "commands for %d questions", callers*(2*rounds+2))
	assert.Zero(t, s.number(t, "EXISTS", redisstore.LeaseKey(redisstore.DefaultPrefix, "crowd:0")))
}

// claimOf is a claim by an owner of some number.
func claimOf(name string, number int) contract.Claim {
	c := claim(name, "n", time.Minute)
	c.Owner = fmt.Sprintf("%0*d", contract.OwnerLen, number)
	return c
}

// calls is how often the server has been sent a command.
func calls(t *testing.T, s server, command string) int64 {
	t.Helper()
	text, err := s.do(t, "INFO", "commandstats").ToString()
	require.NoError(t, err)
	_, rest, ok := strings.Cut(text, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(number, 10, 64)
	require.NoError(t, err)
	return n
}
