package embedded_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

// The scripts of redisstore need nothing that miniredis does not have.
func TestLocks(t *testing.T) {
	t.Parallel()
	suite.OnlyLong(t)
	// Each case has its own server, since Advance moves the clock of all keys
	// on it. The clock moves only then: to let it run by itself, miniredis
	// sorts all keys on every command.
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		redis := embedded.Run(t)
		mini := redis.Mini()
		store, err := redisstore.New(redis.Client(t))
		require.NoError(t, err)
		t.Cleanup(store.Close)

		lease := func(name string) string { return redisstore.DefaultPrefix + "{" + name + "}" }
		var mu sync.Mutex
		now := time.Now()
		mini.ClockTTL(false)
		mini.SetTime(now)
		return storetest.Fixture{
			Store:      store.Engine(),
			Reserves:   true,
			Lines:      true,
			Crowd:      2000, // a window of 1,024 must not hold nearly all of them
			Delete:     func(name string) { mini.Del(lease(name)) },
			DeleteLine: func(name string) { mini.Del(lease(name) + ":waiters") },
			Overwrite: func(name string) {
				require.NoError(t, mini.Set(lease(name), "somebody else"))
				mini.SetTTL(lease(name), time.Minute)
			},
			Advance: func(d time.Duration) {
				// Wake-ups need the time that they need; what the server
				// forgets does not.
				<-time.After(min(d, 2*time.Second))
				mu.Lock()
				defer mu.Unlock()
				now = now.Add(d)
				mini.SetTime(now)
				mini.FastForward(d)
			},
		}
	})
}
