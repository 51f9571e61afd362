package redisstore_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// unknown requires that every method, at the same time, says that it does not
// know, with text in the error, and whether it may pass by itself.
func unknown(t *testing.T, s contract.Store, passes bool, text string) {
	t.Helper()
	check := func(op string, status contract.Status, err error) {
		assert.Equal(t, contract.StatusUnknown, status, op)
		if assert.ErrorContains(t, err, text, op) {
			assert.Equal(t, !passes, errors.Is(err, renewer.ErrRejected), "%v", err)
			assert.True(t, strings.HasPrefix(err.Error(), "redisstore: "+op+": "), err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		g := acquire(t, s, claim("new", "a", time.Minute))
		check("acquire", g.Status, g.Err)
	})
	all.Go(func() {
		a := renew(t, s, hold("held", "a", 2*time.Minute))
		check("renew", a.Status, a.Err)
	})
	all.Go(func() {
		a := release(t, s, hold("held", "a", 0))
		check("release", a.Status, a.Err)
	})
	all.Wait()
}

func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("held", "a", time.Minute))
	s.ok(t, "REPLICAOF", "127.0.0.1", "1")
	unknown(t, store, true, "READONLY")
	_, err := redisstore.NewEngine(s.client(t))
	require.Error(t, err)
	assert.ErrorContains(t, err, "READONLY")
	assert.ErrorContains(t, err, "point it at the primary")
	assert.NotErrorIs(t, err, renewer.ErrRejected)
	s.ok(t, "REPLICAOF", "NO", "ONE")
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold("held", "a", time.Minute)).Status,
		"the lease was not disturbed")
}

// A server whose memory is full takes no lease in, and keeps what is there: leases, which
// are renewed and released as ever, what they tell of those who wait, and places in line.
func TestFullServer(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Minute))
	mine(t, store, slotClaim("a", "a", 2))
	mine(t, store, claim("freed", "a", time.Minute))
	listening(t, store)
	stand(t, store, "b")
	s.ok(t, "CONFIG", "SET", "maxmemory", "1")
	for _, c := range []contract.Claim{claim("new", "a", time.Minute), slotClaim("a", "b", 2)} {
		g := acquire(t, store, c)
		assert.Equal(t, contract.StatusUnknown, g.Status)
		require.ErrorContains(t, g.Err, "OOM")
		require.ErrorIs(t, g.Err, renewer.ErrOverloaded)
		require.NotErrorIs(t, g.Err, renewer.ErrRejected)
	}
	// memory may be freed
	storeOn(t, s.client(t))
	assert.Equal(t, contract.StatusQueued, acquire(t, store, queue("b")).Status)
	for _, h := range []contract.Hold{
		hold("a", "a", time.Minute), holdSlot("a", "a", time.Minute),
	} {
		tells(t, store, h, 19)
		assert.Equal(t, 19, showOf(t, store, "a", h.Limit).Callers())
		stranger := h
		stranger.Owner, stranger.Tells, stranger.Callers = owner("b"), true, 7
		assert.NotEqual(t, contract.StatusHeld, renew(t, store, stranger).Status)
		assert.Equal(t, 19, showOf(t, store, "a", h.Limit).Callers())
		kept := h
		kept.Keep = time.Minute
		assert.Equal(t, contract.StatusHeld, release(t, store, kept).Status, "it stays held")
		assert.Equal(t, contract.StatusHeld, renew(t, store, h).Status, "renewals need no memory")
	}
	for _, h := range []contract.Hold{hold("freed", "a", 0), holdSlot("a", "a", 0)} {
		assert.Equal(t, contract.StatusHeld, release(t, store, h).Status)
	}
	s.ok(t, "CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	awaitGrant(t, store, queue("b"))
	mine(t, store, claim("new", "a", time.Minute))
}

// A lease that was refused while the server's memory was full had no mark that
// it is waited for, so that its release woke no caller when there was memory
// again.
func TestAReleaseWakesThoseWhomAFullServerRefused(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]bool{"in line": true, "without a place": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t)
			store := s.store(t)
			mine(t, store, claim("other", "a", time.Minute))
			waits := claim("a", "b", time.Minute)
			if lines {
				waits.Name, waits.Place = "other", 1
				acquire(t, store, waits)
				waits.Name = "a"
			}
			w, open := newWatch(store, "a"), newWatch(store, "other")
			defer w.stop()
			defer open.stop()
			w.await(t, "set up")
			open.await(t, "set up")
			mine(t, store, claim("a", "a", time.Minute))
			s.ok(t, "CONFIG", "SET", "maxmemory", "1")
			g := acquire(t, store, waits)
			require.NoError(t, g.Err)
			want := contract.StatusTaken
			if lines {
				want = contract.StatusQueued
			}
			require.Equal(t, want, g.Status)
			assert.Equal(t, contract.StatusUnknown,
				acquire(t, store, claim("free", "a", time.Minute)).Status, "it takes no lease in")
			s.ok(t, "CONFIG", "SET", "maxmemory", "0")
			w.clear()
			require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
			w.await(t, "released")
		})
	}
}

// Where no write is taken, a refusal that can't be marked is none: no release would wake
// the one who hears it. That a lease has gone is told without a write.
func TestARefusalThatCanNotBeMarkedIsAnError(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Minute))
	s.ok(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	g := acquire(t, store, claim("a", "b", time.Minute))
	assert.Equal(t, contract.StatusUnknown, g.Status)
	require.ErrorContains(t, g.Err, "NOREPLICAS")
	require.NotErrorIs(t, g.Err, renewer.ErrRejected, "it may pass")
	require.Equal(t, contract.Answer{Status: contract.StatusGone},
		release(t, store, hold("gone", "a", 0)))

	s.ok(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	waitedFor(t, store, "a")
	s.ok(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	waitedFor(t, store, "a") // it has its mark
}

func TestLoadingServer(t *testing.T) {
	t.Parallel()
	// us a key: 1 s in all. While it loads, it answers once in 2 MiB.
	redis, s := startReal(t, "--key-load-delay", "3000", "--rdbcompression", "no")
	store := s.store(t)
	mine(t, store, claim("held", "a", time.Minute))
	blob := strings.Repeat("x", 64<<10)
	for i := range 300 {
		s.ok(t, "SET", "filler"+strconv.Itoa(i), blob)
	}
	s.ok(t, "SAVE")
	loaded := make(chan error, 1)
	go func() { loaded <- redis.Restart() }()
	require.Eventually(t, func() bool {
		a := renew(t, store, hold("held", "a", time.Minute))
		return a.Status == contract.StatusUnknown && strings.Contains(a.Err.Error(), "LOADING")
	}, patience, time.Millisecond)
	unknown(t, store, true, "LOADING")
	// it will be ready
	early := storeOn(t, s.client(t))
	require.NoError(t, <-loaded)
	require.Eventually(t, func() bool {
		return early.Server() != ""
	}, patience, time.Millisecond, "asked again")
	assert.Equal(t, contract.StatusHeld, renew(t, store, hold("held", "a", time.Minute)).Status)
}

func TestServerWantsAPassword(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	s.option.PipelineMultiplex = -1 // one connection, so that one error means that it was closed
	store := s.store(t)
	mine(t, store, claim("held", "a", time.Minute))
	s.ok(t, "CONFIG", "SET", "requirepass", "hunter2")
	s.ok(t, "CLIENT", "KILL", "TYPE", "normal") // but for the one that asks
	// the first answers may be about the connection's end
	require.Eventually(t, func() bool {
		return strings.Contains(renew(t, store, hold("held", "a", time.Minute)).Err.Error(), "NOAUTH")
	}, patience, time.Millisecond)
	unknown(t, store, true, "NOAUTH") // the password may be changing

	for password, text := range map[string]string{"": "NOAUTH", "hunter3": "WRONGPASS"} {
		option := s.option
		option.Password = password
		client, err := rueidis.NewClient(option)
		require.Error(t, err)
		require.NotNil(t, client)
		_, err = redisstore.NewEngine(client)
		require.ErrorIs(t, err, renewer.ErrRejected)
		assert.ErrorContains(t, err, text)
		assert.ErrorContains(t, err, "set Username and Password")
		assert.NotContains(t, err.Error(), "hunter")
		client.Close()
	}
}

func TestServerDown(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	client := s.client(t)
	store, err := redisstore.NewEngine(client)
	require.NoError(t, err)
	redis.Kill()
	unknown(t, store, true, "redisstore")
	started := time.Now()
	// locks taken later wait for it
	storeOn(t, client)
	assert.Less(t, time.Since(started), 5*time.Second)
	require.NoError(t, redis.Restart())
	s.admin = redis.Client(t)
	require.Eventually(t, func() bool {
		return acquire(t, store, claim("new", "a", time.Minute)).Status == contract.StatusHeld
	}, patience, 10*time.Millisecond)
}

func TestServerFrozen(t *testing.T) {
	t.Parallel()
	redis, s := startReal(t)
	s.option.PipelineMultiplex = -1 // one connection, which is there; a second would be made now
	store := s.store(t)
	client := s.client(t)
	require.NoError(t, redis.Stop())
	t.Cleanup(func() { assert.NoError(t, redis.Cont()) })
	ctx := within(t, 100*time.Millisecond)
	started := time.Now()
	g := store.Acquire(ctx, []contract.Claim{
		claim("a", "a", time.Minute),
		claim("b", "a", time.Minute),
	})
	assert.Less(t, time.Since(started), 5*time.Second, "a call ends with its context")
	for _, g := range g {
		assert.Equal(t, contract.StatusUnknown, g.Status)
		require.Error(t, g.Err)
		assert.NotErrorIs(t, g.Err, renewer.ErrRejected)
	}
	started = time.Now()
	// slow is no refusal
	storeOn(t, client)
	assert.Less(t, time.Since(started), 6*time.Second, "New is bounded by 1 s")
	require.NoError(t, redis.Cont())
}
