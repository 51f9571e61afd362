package clock_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/clock"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

// slack is for how long the machine may hold the test up between two questions.
const slack = 5 * time.Second

func ahead(t *testing.T, s *redistest.Server) time.Duration {
	t.Helper()
	parts, err := s.Do("TIME").AsIntSlice()
	require.NoError(t, err)
	return time.Until(time.Unix(parts[0], parts[1]*1000))
}

func TestClock(t *testing.T) { //nolint:paralleltest // the PATH is the process's
	path := os.Getenv("PATH")
	remove, err := clock.Install()
	if err != nil {
		require.ErrorIs(t, err, redistest.ErrMissing)
		require.NotEqual(t, "1", os.Getenv(redistest.RequireEnv), err)
		t.Skip(err)
	}
	s := redistest.Start(t)
	assert.InDelta(t, 0, ahead(t, s), float64(slack))
	c, err := clock.Of(s)
	require.NoError(t, err)

	require.NoError(t, s.Do("SET", "key", "value", "PX", "20000").Error())
	require.NoError(t, c.Step(-30*time.Second))
	assert.InDelta(t, -30*time.Second, ahead(t, s), float64(slack))
	left, err := s.Do("PTTL", "key").AsInt64()
	require.NoError(t, err)
	assert.InDelta(t, 50_000, left, float64(slack.Milliseconds()), "expiry goes by the wall clock")
	require.NoError(t, c.Step(60*time.Second))
	assert.InDelta(t, 30*time.Second, ahead(t, s), float64(slack))
	left, err = s.Do("PTTL", "key").AsInt64()
	require.NoError(t, err)
	assert.EqualValues(t, -2, left)

	require.NoError(t, c.Rate(1000))
	<-time.After(20 * time.Millisecond)
	require.NoError(t, c.Rate(0))
	gained := ahead(t, s)
	assert.Greater(t, gained, 50*time.Second-slack, "a thousandfold over 20 ms")
	assert.InDelta(t, gained, ahead(t, s), float64(slack), "what it has gained stays")
	require.NoError(t, s.Restart())
	assert.InDelta(t, gained, ahead(t, s), float64(slack), "a restart does not set it right")

	require.NoError(t, remove())
	assert.Equal(t, path, os.Getenv("PATH"))
}
