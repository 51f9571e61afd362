package embedded_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
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
