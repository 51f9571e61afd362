package resource_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*resource.Server, *resource.Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	server, err := resource.Listen(path)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	client, err := resource.Dial(path)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return server, client
}

func TestCountsWhatItAccepts(t *testing.T) {
	t.Parallel()
	server, client := start(t)
	for i := range int64(3) {
		value, err := client.Read("x", 7+i)
		require.NoError(t, err)
		require.Equal(t, i, value)
		require.NoError(t, client.Write("x", 7+i, value+1))
	}
	accepted, err := server.Check()
	require.NoError(t, err)
	assert.EqualValues(t, 3, accepted)
	assert.Equal(t, map[string]int64{"x": 9}, server.Progress())
}

// A read raises the token too: the older holder must not write
// between the newer one's read and its write.
func TestRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	server, client := start(t)
	_, err := client.Read("x", 7)
	require.NoError(t, err)
	_, err = client.Read("x", 8)
	require.NoError(t, err)
	require.ErrorIs(t, client.Write("x", 7, 1), resource.ErrStale)
	require.NoError(t, client.Write("x", 8, 1))
	_, err = client.Read("x", 7)
	require.ErrorIs(t, err, resource.ErrStale)
	require.NoError(t, client.Write("y", 1, 1), "another counter has another token")
	refused := server.Refused()
	require.Len(t, refused, 2)
	assert.Equal(t, "x", refused[0].Name)
	assert.EqualValues(t, 7, refused[0].Token)
	assert.EqualValues(t, 8, refused[0].Highest)
	assert.Positive(t, refused[0].At)
	_, err = server.Check()
	require.NoError(t, err)
}

func TestFindsALostIncrement(t *testing.T) {
	t.Parallel()
	server, client := start(t)
	require.NoError(t, client.Write("x", 7, 1))
	require.NoError(t, client.Write("x", 7, 1))
	_, err := server.Check()
	require.ErrorContains(t, err, `"x": 2 increments were accepted, and the counter is 1`)
}
