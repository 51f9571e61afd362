package campaign_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

// Whatever is left is found: a lock, a key without a TTL, a
// connection. What stays for a while by design is not.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--user", deploy.User, "on", ">"+deploy.Password, "~*", "&*",
		"+@all")
	set := func(args ...string) {
		require.NoError(t, server.Do(append([]string{"SET"}, args...)...).Error())
	}
	set("lockbeat:{%}:mark", "1", "PX", "60000")
	set("lockbeat:{lock-1}:ahead", "1", "PX", "1000")
	set("lockbeat:{%00lockbeat quorum}", "1", "PX", "60000")
	require.NoError(t, campaign.LeftOn(server, false))
	set("lockbeat:{lock-1}:fence", "1", "PX", "60000")
	require.NoError(t, campaign.LeftOn(server, true))
	require.ErrorContains(t, campaign.LeftOn(server, false), "counter of one name")
	require.NoError(t, server.Do("DEL", "lockbeat:{lock-1}:fence").Error())

	set("lockbeat:{lock-1}", "x", "PX", "60000")
	require.ErrorContains(t, campaign.LeftOn(server, false), "lockbeat:{lock-1} is still held")
	require.NoError(t, server.Do("DEL", "lockbeat:{lock-1}").Error())
	require.NoError(t, server.Do("ZADD", "lockbeat:{lock-1}:waiters", "1", "x").Error())
	require.NoError(t, server.Do("PEXPIRE", "lockbeat:{lock-1}:waiters", "60000").Error())
	require.ErrorContains(t, campaign.LeftOn(server, false), ":waiters is still there")
	require.NoError(t, server.Do("DEL", "lockbeat:{lock-1}:waiters").Error())
	set("lockbeat:x{%}:mark", "1", "PX", "60000")
	require.ErrorContains(t, campaign.LeftOn(server, false), "marks of the same slot")
	require.NoError(t, server.Do("FLUSHALL").Error())
	set("lockbeat:{%}:mark", "1")
	require.ErrorContains(t, campaign.LeftOn(server, false), "lockbeat:{%}:mark has no TTL")
	require.NoError(t, server.Do("FLUSHALL").Error())

	client, err := server.NewClient(func(o *rueidis.ClientOption) {
		o.Username, o.Password = deploy.User, deploy.Password
	})
	require.NoError(t, err)
	require.ErrorContains(t, campaign.LeftOn(server, false), "connections of workers are still open")
	client.Close()
	assert.Eventually(t, func() bool {
		return campaign.LeftOn(server, false) == nil
	}, 5*time.Second, time.Millisecond)
}
