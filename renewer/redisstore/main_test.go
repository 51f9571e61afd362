package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	internal "github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(10)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// patience is how long a test waits for what should come at once.
const patience = 10 * time.Second

// server is a Redis, and a client that looks on.
type server struct {
	option rueidis.ClientOption
	admin  rueidis.Client
}

func startReal(t testing.TB, args ...string) (*redistest.Server, server) {
	t.Helper()
	redis := redistest.Start(t, args...)
	return redis, server{option: redis.ClientOption(), admin: redis.Client(t)}
}

func (s server) client(t testing.TB, edit ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	option := s.option
	for _, e := range edit {
		e(&option)
	}
	c, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// store makes a store on a client of its own.
func (s server) store(t testing.TB, opts ...redisstore.Option) *redisstore.Engine {
	t.Helper()
	return storeOn(t, s.client(t), opts...)
}

// storeOn makes a store on a client, which ends with the test.
func storeOn(
	t testing.TB, client rueidis.Client, opts ...redisstore.Option,
) *redisstore.Engine {
	t.Helper()
	store, err := redisstore.NewEngine(client, opts...)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

func (s server) do(t testing.TB, args ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.admin.Do(ctx, s.admin.B().Arbitrary(args...).Build())
}

func (s server) ok(t testing.TB, args ...string) {
	t.Helper()
	require.NoError(t, s.do(t, args...).Error(), "%v", args)
}

func (s server) get(t testing.TB, key string) string {
	t.Helper()
	text, err := s.do(t, "GET", key).ToString()
	require.NoError(t, err, "GET %s", key)
	return text
}

func (s server) number(t testing.TB, args ...string) int64 {
	t.Helper()
	n, err := s.do(t, args...).AsInt64()
	require.NoError(t, err, "%v", args)
	return n
}

// owner makes an owner token out of a letter.
func owner(letter string) string { return strings.Repeat(letter, contract.OwnerLen) }

func claim(name, letter string, ttl time.Duration) contract.Claim {
	return contract.Claim{
		Name: name, Owner: owner(letter), TTL: ttl,
		Holder: contract.Holder{Node: "node-" + letter, PID: 42, Operation: "test"},
	}
}

func hold(name, letter string, ttl time.Duration) contract.Hold {
	return contract.Hold{Name: name, Owner: owner(letter), TTL: ttl}
}

// slotsKey is the key of a limit's slots.
func slotsKey(name string) string {
	return redisstore.KeyOf(redisstore.DefaultPrefix, internal.Name{Text: name, Limit: true})
}

func holdSlot(name, letter string, ttl time.Duration) contract.Hold {
	h := hold(name, letter, ttl)
	h.Limit = true
	return h
}

func acquire(t testing.TB, s contract.Store, c contract.Claim) contract.Grant {
	t.Helper()
	grants := s.Acquire(t.Context(), []contract.Claim{c})
	require.Len(t, grants, 1)
	return grants[0]
}

// mine acquires, and requires that it is granted.
func mine(t testing.TB, s contract.Store, c contract.Claim) int64 {
	t.Helper()
	g := acquire(t, s, c)
	require.NoError(t, g.Err)
	require.Equal(t, contract.StatusHeld, g.Status)
	return g.Fence
}

func renew(t testing.TB, s contract.Store, h contract.Hold) contract.Answer {
	t.Helper()
	answers := s.Renew(t.Context(), []contract.Hold{h})
	require.Len(t, answers, 1)
	return answers[0]
}

// waitedFor has a lock that is held refuse another owner, so that
// those who watch it are told of its release.
func waitedFor(t testing.TB, s contract.Store, name string) {
	t.Helper()
	require.Equal(t, contract.StatusTaken, acquire(t, s, claim(name, "?", time.Minute)).Status)
}

func release(t testing.TB, s contract.Store, h contract.Hold) contract.Answer {
	t.Helper()
	answers := s.Release(t.Context(), []contract.Hold{h})
	require.Len(t, answers, 1)
	return answers[0]
}
