package embedded_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

func TestMain(m *testing.M) {
	suite.AtOnce(24)
	goleak.VerifyTestMain(m)
}

func TestKeysExpireAsTimeGoesBy(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	client := redis.Client(t)
	require.NoError(t, client.Do(t.Context(),
		client.B().Set().Key("k").Value("v").Px(30*time.Millisecond).Build()).Error())
	require.Eventually(t, func() bool {
		return rueidis.IsRedisNil(client.Do(t.Context(), client.B().Get().Key("k").Build()).Error())
	}, 5*time.Second, 2*time.Millisecond)
}

func TestTimeIsTheClock(t *testing.T) {
	t.Parallel()
	client := embedded.Run(t).Client(t)
	parts, err := client.Do(t.Context(),
		client.B().Eval().Script("return redis.call('TIME')").Numkeys(0).Build()).AsIntSlice()
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), time.Unix(parts[0], parts[1]*1000), 5*time.Second)
}

// A lease may lapse while a claim looks at it: the claim's mark must not have
// it stay for ever.
func TestLeasesLapseWhileTheyAreClaimed(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	s, err := redisstore.New(redis.Client(t))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	var claims sync.WaitGroup
	for i := range 16 {
		claims.Go(func() {
			claim := store.Claim{Name: fmt.Sprint(i % 8), TTL: time.Millisecond}
			for range 100 {
				claim.Owner = rand.Text()[:store.OwnerLen]
				s.Engine().Acquire(t.Context(), []store.Claim{claim})
			}
		})
	}
	claims.Wait()
	for i := range 8 {
		key := fmt.Sprintf("%s{%d}", redisstore.DefaultPrefix, i)
		assert.Eventually(t, func() bool { return !redis.Mini().Exists(key) }, time.Second,
			time.Millisecond, key)
	}
}

// A machine whose clock was never set hands locks over as any other.
func TestAClockThatWasNeverSet(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	redis.Mini().ClockTTL(false)
	redis.Mini().SetTime(time.Unix(5, 0))
	keepers := make([]*renewer.Keeper, 2)
	for i := range keepers {
		s, err := redisstore.New(redis.Client(t))
		require.NoError(t, err)
		t.Cleanup(s.Close)
		keepers[i], err = renewer.New(s, renewer.Config{Log: renewer.Silent})
		require.NoError(t, err)
	}
	l, err := keepers[0].Acquire(t.Context(), renewer.Request{Name: "a"})
	require.NoError(t, err)
	got := make(chan error)
	for i := range 8 {
		k := keepers[1-i%2]
		next := make(chan *renewer.Lease)
		go func() {
			l, err := k.Acquire(t.Context(), renewer.Request{Name: "a"})
			got <- err
			next <- l
		}()
		require.Eventually(t, func() bool {
			return redis.Mini().Exists(redisstore.DefaultPrefix + "{a}:waiters")
		}, 5*time.Second, time.Millisecond)
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-got)
		later := <-next
		assert.Greater(t, later.Fence(), l.Fence())
		l = later
	}
	require.NoError(t, l.Release(t.Context()))
	for _, k := range keepers {
		require.NoError(t, k.Shutdown(t.Context()))
	}
}
