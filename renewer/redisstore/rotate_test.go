package redisstore_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// A password that was changed in its file was never read again: locks stayed
// refused until the process was started anew, and HealthCheck said that all was
// well.
func TestPasswordThatChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	user := func(words ...string) {
		t.Helper()
		require.NoError(t, server.Do(append([]string{"ACL", "SETUSER", "locks"}, words...)...).Error())
	}
	user("on", ">"+sesame, "~*", "&*", "+@all")
	file := fileWith(t, sesame+"\n")
	d := fromWords(t, "LOCKBEAT_URL=redis://locks@"+server.Addr(), "LOCKBEAT_PASSWORD_FILE="+file)
	d.TTL = 3 * time.Second
	store, err := redisstore.OpenEngine(t.Context(), d)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	keeper := keeperOn(t, store, renewer.Config{
		Log: renewer.Silent, TTL: 3 * time.Second, FailOver: 500 * time.Millisecond,
	})
	once := func(ctx context.Context) error {
		lease, err := keeper.Acquire(ctx, renewer.Request{Name: "job"})
		if err == nil {
			_ = lease.Release(ctx)
		}
		return err
	}
	require.NoError(t, once(t.Context()))

	// The server has a new one, and nobody has told us.
	user("resetpass", ">changed")
	require.NoError(t, server.Do("CLIENT", "KILL", "USER", "locks").Error())
	require.Eventually(t, func() bool {
		err := once(within(t, 100*time.Millisecond))
		assert.NotErrorIs(t, err, renewer.ErrRejected, "it may be a password that is changing")
		assert.NotContains(t, err.Error(), sesame)
		return keeper.HealthCheck() != nil
	}, patience, 10*time.Millisecond, "a refused login is an outage")
	require.ErrorIs(t, keeper.HealthCheck(), renewer.ErrUnavailable)
	assert.Positive(t, keeper.Outage("job"))

	require.NoError(t, os.WriteFile(file, []byte("changed\n"), 0o600))
	require.Eventually(t, func() bool { return keeper.HealthCheck() == nil }, patience,
		10*time.Millisecond, "though no caller asks")
	require.NoError(t, once(within(t, patience)))
}

// The passwords of Sentinels and of their servers are two, and both are read
// again.
func TestPasswordsOfSentinelsThatChange(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	set := func(servers []*redistest.Server, name, password string) {
		t.Helper()
		for _, server := range servers {
			require.NoError(t, server.Do("ACL", "SETUSER", name, "on", "resetpass", ">"+password, "~*",
				"&*", "+@all").Error())
			_ = server.Do("CLIENT", "KILL", "USER", name).Error()
		}
	}
	set(s.Data, "locks", sesame)
	set(s.Sentinels, "asker", "other-"+sesame)
	serverFile, sentinelFile := fileWith(t, sesame), fileWith(t, "other-"+sesame)
	hosts := ""
	for _, server := range s.Sentinels {
		hosts += "," + server.Addr()
	}
	d := fromWords(t, "LOCKBEAT_URL=redis://locks@"+hosts[1:],
		"LOCKBEAT_SENTINEL_MASTER="+redistest.MasterSet, "LOCKBEAT_PASSWORD_FILE="+serverFile,
		"LOCKBEAT_SENTINEL_USER=asker", "LOCKBEAT_SENTINEL_PASSWORD_FILE="+sentinelFile)
	lockAt(t, d)
	set(s.Data, "locks", "changed")
	set(s.Sentinels, "asker", "other-changed")
	require.NoError(t, os.WriteFile(serverFile, []byte("changed"), 0o600))
	require.NoError(t, os.WriteFile(sentinelFile, []byte("other-changed"), 0o600))
	lockAt(t, d)
}
