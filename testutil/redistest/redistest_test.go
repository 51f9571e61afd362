package redistest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

func get(ctx context.Context, c rueidis.Client, key string) (string, error) {
	return c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
}

func TestStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key("k").Value("v").Build()).Error())

	value, err := server.Do("GET", "k").ToString()
	require.NoError(t, err)
	assert.Equal(t, "v", value)
	keys, err := server.DBSize()
	require.NoError(t, err)
	assert.EqualValues(t, 1, keys)
	calls, err := server.Calls("SET")
	require.NoError(t, err)
	assert.EqualValues(t, 1, calls)
	calls, err = server.Calls("lpush")
	require.NoError(t, err)
	assert.Zero(t, calls, "a command that never ran")
	saved, err := server.Do("CONFIG", "GET", "save").AsStrMap()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"save": ""}, saved, "no persistence unless asked for")
}

func TestStopAnswersNothingUntilCont(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	require.NoError(t, server.Do("SET", "short", "v", "PX", "20").Error())
	require.NoError(t, server.Stop())

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := get(ctx, client, "short")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.NoError(t, server.Cont())
	_, err = get(t.Context(), client, "short")
	assert.True(t, rueidis.IsRedisNil(err), "keys expire while the server is frozen: %v", err)
}

func TestKillRefusesUntilRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addr := server.Addr()
	require.NoError(t, server.Do("SET", "k", "v").Error())
	server.Kill()
	server.Kill()

	_, err := server.NewClient()
	require.Error(t, err)
	require.Error(t, server.Stop(), "there is nothing to stop")
	require.Error(t, server.Cont())
	require.Panics(t, func() { server.Do("PING") })

	require.NoError(t, server.Restart())
	assert.Equal(t, addr, server.Addr())
	keys, err := server.DBSize()
	require.NoError(t, err)
	assert.Zero(t, keys, "it remembers nothing without persistence")
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Parallel()
	server, err := redistest.Open()
	require.NoError(t, err)
	dir, err := server.Do("CONFIG", "GET", "dir").AsStrMap()
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	require.NoError(t, server.Close())
	_, err = os.Stat(dir["dir"])
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = server.NewClient()
	require.Error(t, err)
}

// Two processes never have the same ports, whatever their numbers are.
func TestABlockOfPortsIsOneProcess(t *testing.T) {
	t.Parallel()
	first, giveBack, err := redistest.TakeBlock(5)
	require.NoError(t, err)
	second, alsoBack, err := redistest.TakeBlock(5)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.NoError(t, giveBack())
	require.NoError(t, alsoBack())
}

func TestAFullDisk(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for range 2 {
		require.NoError(t, server.FillDisk())
		for _, refused := range [][]string{{"SET", "k", "v"}, {"PING"}} {
			assert.ErrorContains(t, server.Do(refused...).Error(), "MISCONF", refused)
		}
		require.NoError(t, server.FreeDisk())
		require.NoError(t, server.Do("SET", "k", "v").Error())
	}
}
