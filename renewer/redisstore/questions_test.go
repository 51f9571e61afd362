package redisstore_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"sync"
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

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) option() redisstore.Option {
	return redisstore.Log(slog.New(slog.NewTextHandler(l, nil)))
}

// awaitLine waits until a store has places for those who wait.
func awaitLine(t *testing.T, s server, store *redisstore.Engine) {
	t.Helper()
	s.ok(t, "SET", redisstore.LeaseKey(redisstore.DefaultPrefix, "a"), "x", "PX", "60000")
	require.Eventually(t, func() bool {
		queued := acquire(t, store, queue("b")).Status == contract.StatusQueued
		newWatch(store, "a").stop() // which opens its mailbox, once it has lines
		return queued
	}, patience, 10*time.Millisecond)
	release(t, store, leaving("b"))
}

// A server that was slow to answer while New asked it had no lines for the
// store's whole life.
func TestNewWhileTheServerIsSlow(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	s.ok(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	link, client := s.linked(t, 15*time.Second)
	link.Blackhole(proxy.Down)
	var log logged
	begun := time.Now()
	store := storeOn(t, client, log.option())
	assert.Less(t, time.Since(begun), 3*time.Second)
	assert.Empty(t, store.Server())
	link.Heal()
	require.Eventually(t, func() bool {
		return store.Server() != ""
	}, patience, time.Millisecond, "asked again")
	awaitLine(t, s, store)
	require.Eventually(t, func() bool { return log.String() != "" }, patience, time.Millisecond)
	assert.Contains(t, log.String(), "maxmemory-policy=allkeys-lru")
}

// The same of a server that is loading: it answers, but that it can't.
func TestNewWhileTheServerIsLoading(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	// stands for LOADING: what the script would write is refused for now
	s.ok(t, "CONFIG", "SET", "maxmemory", "1")
	store := s.store(t)
	s.ok(t, "CONFIG", "SET", "maxmemory", "0")
	awaitLine(t, s, store)
}

// Redis 6.0 lets plain locks through, and would fail the first limit.
func TestNewRefusesAServerThatIsTooOld(t *testing.T) {
	t.Parallel()
	const fine = "*0\r\n"
	old := &rogue{replies: []string{
		fine, fine, "-NOPERM no CONFIG\r\n", "*2\r\n$4\r\nZADD\r\n$16\r\nERR syntax error\r\n",
	}}
	_, err := redisstore.NewEngine(old.client(t))
	require.ErrorIs(t, err, renewer.ErrRejected)
	require.EqualError(t, err, "redisstore: new: the server is older than Redis 6.2: ERR syntax "+
		"error (run Redis 6.2 or later, or Valkey)")
}

// What New could not find out in time is told by the log.
func TestNewHearsOfARefusalLater(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	s.ok(t, "ACL", "SETUSER", "locks", "on", "nopass", "~*", "&*", "+@connection", "+eval",
		"+evalsha")
	s.option.Username, s.option.Password = "locks", "x"
	link, client := s.linked(t, 15*time.Second)
	link.Blackhole(proxy.Down)
	var log logged
	storeOn(t, client, log.option())
	link.Heal()
	require.Eventually(t, func() bool { return log.String() != "" }, patience, time.Millisecond)
	assert.Contains(t, log.String(), "the server refuses GET")
	assert.Contains(t, log.String(), redisstore.Rights)
}

// Nothing goes on asking a server that never comes back: it ends with the
// store, or with the client. (TestMain counts.)
//
//nolint:paralleltest // it looks at all goroutines
func TestQuestionsEnd(t *testing.T) {
	for name, end := range map[string]func(*redisstore.Engine, rueidis.Client){
		"with the store":  func(s *redisstore.Engine, _ rueidis.Client) { s.Close() },
		"with the client": func(_ *redisstore.Engine, c rueidis.Client) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			_, s := startReal(t)
			link, client := s.linked(t, 15*time.Second)
			link.Blackhole(proxy.Down)
			store, err := redisstore.NewEngine(client)
			require.NoError(t, err)
			end(store, client)
			stacks := make([]byte, 4<<20)
			require.Eventually(t, func() bool {
				n := runtime.Stack(stacks, true)
				return !bytes.Contains(stacks[:n], []byte("probe.(*Prober).Later("))
			}, patience, 10*time.Millisecond)
		})
	}
}

// Behind Sentinel, a primary that goes on without a replica grants after a
// fail-over what others have.
func TestMinReplicasWarning(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	for least, warns := range map[string]bool{"0": true, "1": false} {
		require.NoError(t, sentinel.Data[0].Do("CONFIG", "SET", "min-replicas-to-write",
			least).Error())
		var log logged
		client := sentinel.Client(t)
		store, err := redisstore.NewEngine(client, log.option())
		require.NoError(t, err)
		store.Close()
		assert.Equal(t, warns,
			bytes.Contains([]byte(log.String()), []byte("min-replicas-to-write=0")), log.String())
	}
	server, err := sentinel.Primary()
	require.NoError(t, err)
	var log logged
	store, err := redisstore.NewEngine(server.Client(t), log.option())
	require.NoError(t, err)
	store.Close()
	assert.Empty(t, log.String(), "a single server has no replica to wait for")
}
