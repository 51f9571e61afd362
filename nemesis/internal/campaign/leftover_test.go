package campaign_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// slot makes a slot that lapses.
const slot = "redis.call('ZADD',KEYS[1],1,'x')return(redis.call('PEXPIRE',KEYS[1],60000))"

// Whatever is left is found: a lock, a key without a TTL, a
// connection. What stays for a while by design is not.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	server := start(t)
	for _, c := range []struct{ command, found string }{
		{"SET lockbeat:{%}:mark 1 PX 60000", ""},
		{"SET lockbeat:{lock-1}:fence 1 PX 60000", "counter of one name"},
		{"SET lockbeat:{lock-1} x PX 60000", "lockbeat:{lock-1} is still there"},
		{"EVAL " + slot + " 1 lockbeat:{lock-1}:slots", "lockbeat:{lock-1}:slots is still there"},
		{"HSET lockbeat:{lock-1}:slots:holders + +", "lockbeat:{lock-1}:slots:holders has no TTL"},
		{"SET lockbeat:{%}:mark 1", "lockbeat:{%}:mark has no TTL"},
		{"EVAL " + slot + " 1 lockbeat:{lock-1}:waiters", "lockbeat:{lock-1}:waiters is still there"},
	} {
		require.NoError(t, server.Do(strings.Fields(c.command)...).Error())
		if err := campaign.LeftOn(server, new(deploy.Deployment)); c.found == "" {
			require.NoError(t, err, c.command)
		} else {
			require.ErrorContains(t, err, c.found)
		}
		require.NoError(t, server.Do("FLUSHALL").Error())
	}
	line := strings.Fields("EVAL " + slot + " 1 lockbeat:{lock-1}:waiters")
	require.NoError(t, server.Do(line...).Error())
	require.NoError(t, campaign.LeftOn(server, &deploy.Deployment{Sentinel: new(redistest.Sentinel)}),
		"a fail-over may have forgotten that a place was given up")
	require.NoError(t, server.Do("FLUSHALL").Error())

	client, err := server.NewClient(func(o *rueidis.ClientOption) {
		o.Username, o.Password = deploy.User, deploy.Password
	})
	require.NoError(t, err)
	require.ErrorContains(t, campaign.LeftOn(server, new(deploy.Deployment)), "connections of workers are still open")
	client.Close()
	assert.Eventually(t, func() bool {
		return campaign.LeftOn(server, new(deploy.Deployment)) == nil
	}, 5*time.Second, time.Millisecond)
}
