package embedded_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestSubscriptionBesideCommands(t *testing.T) {
	t.Parallel()
	client := embedded.Run(t).Client(t)
	subscribed, got := make(chan struct{}), make(chan string, 1)
	ctx := rueidis.WithOnSubscriptionHook(t.Context(), func(rueidis.PubSubSubscription) {
		close(subscribed)
	})
	done := make(chan error, 1)
	go func() {
		done <- client.Receive(ctx, client.B().Subscribe().Channel("c").Build(),
			func(m rueidis.PubSubMessage) {
				got <- m.Message
			})
	}()
	<-subscribed
	require.NoError(t, client.Do(t.Context(),
		client.B().Publish().Channel("c").Message("hello").Build()).Error())
	assert.Equal(t, "hello", <-got)
	client.Close()
	require.Error(t, <-done)
}

func TestMiniCanFail(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	client := redis.Client(t)
	redis.Mini().SetError("LOADING still loading")
	assert.ErrorContains(t, client.Do(t.Context(),
		client.B().Set().Key("k").Value("v").Build()).Error(), "LOADING")
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	redis, err := embedded.Start()
	require.NoError(t, err)
	redis.Close()
	redis.Close()
	assert.NotEmpty(t, redis.Addr())
	_, err = redis.NewClient()
	require.Error(t, err)
}
