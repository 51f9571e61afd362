package deployment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url, hosts, user, password string
		db                         int
	}{
		{"redis://h", "h:6379", "", "", 0},
		{"rediss://h:1/", "h:1", "", "", 0},
		{"redis://[::1]:7/3", "[::1]:7", "", "", 3},
		{"redis://[::1]", "[::1]:6379", "", "", 0},
		{"redis://u:p%40%2F@a,b:2?db=4", "a:6379 b:2", "u", "p@/", 4},
		{"redis://:p@a", "a:6379", "", "p", 0},
		{"redis://u:p@q@a", "a:6379", "u", "p@q", 0},
		{"valkey://h", "h:6379", "", "", 0},
		{"valkeys://h/1", "h:6379", "", "", 1},
		{"unix:///run/redis.sock", "/run/redis.sock", "", "", 0},
		{"unix://u:p@/run/a%2Cb/redis,1.sock?db=2", "/run/a,b/redis,1.sock", "u", "p", 2},
	} {
		hosts, user, password, db, faults := deployment.ParseURL(c.url)
		assert.Empty(t, faults, c.url)
		assert.Equal(t, c.hosts, strings.Join(hosts, " "), c.url)
		assert.Equal(t, []any{c.user, c.password, c.db}, []any{user, password, db}, c.url)
	}
	for _, bad := range []string{
		"", "h:6379", "http://h", "redis://", "redis://a,,b", "redis://a:0", "redis://a:x",
		"redis://::1", "redis://a:70000", "redis://a/x", "redis://a/-1", "redis://a/1?db=1",
		"redis://a?db=1&db=2", "redis://a?x=1", "redis://u:%zz@a", "redis://u:p/q@a",
		"redis://u:p?q@a", "redis://u:p#q@a", "redis://h\n", "redis://h]",
		"redis://[::1", "redis://a\x00,b",
		"unix://", "unix://run/redis.sock", "unix:///a?cluster=true", "unix:///a?sentinel_master=m",
		"unix:///%zz", "redis://a?protocol=4", "redis://a?dial_timeout=5", "redis://a?pool_size=3",
		"redis://a?write_timeout=-1s", "redis://a?max_retries=3", "rediss://a?skip_verify=true",
	} {
		_, _, _, _, faults := deployment.ParseURL(bad)
		assert.NotEmpty(t, faults, bad)
	}
}

// What rueidis takes in a URL, and locks can do with, is taken; of the rest the
// fault says the way.
func TestParametersOfURLs(t *testing.T) {
	t.Parallel()
	s, err := deployment.FromURL("redis://h?protocol=2&dial_timeout=2s&write_timeout=1500ms&" +
		"client_name=me&client_cache=0&max_retries=0&db=3")
	require.NoError(t, err)
	o := s.Option
	assert.True(t, o.AlwaysRESP2)
	assert.Equal(t, 2*time.Second, o.Dialer.Timeout)
	assert.Equal(t, 1500*time.Millisecond, o.ConnWriteTimeout)
	assert.Equal(t, "me", o.ClientName)
	assert.Equal(t, []bool{true, true}, []bool{o.DisableCache, o.DisableRetry})
	assert.Equal(t, 3, o.SelectDB)
	for url, says := range map[string]string{
		"redis://h?pool_size=3":       "redisstore.Deployment{Option: rueidis.MustParseURL(url)}",
		"rediss://h?skip_verify=true": "set LOCKBEAT_TLS_CA, or Deployment.Option.TLSConfig",
		"redis://h?protocol=4":        "protocol is 2 or 3",
		"unix://h":                    "write unix:///path/of/the/socket",
	} {
		_, err := deployment.FromURL(url)
		require.ErrorIs(t, err, renewer.ErrConfig, url)
		assert.ErrorContains(t, err, says)
	}
}

// Wherever a secret is in a URL, a fault does not show it; and a URL with a
// password is known to have one.
func FuzzURL(f *testing.F) {
	for _, seed := range [][2]string{
		{"redis://user:", "@h:1/2"},
		{"redis://:", "/@[::1"},
		{"rediss://a,b@c@d?db=", ""},
		{"", ""},
		{"redis://a?", "=1"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		url := before + secret + after
		_, _, password, _, faults := deployment.ParseURL(url)
		assert.NotContains(t, strings.Join(faults, " "), secret)
		if password != "" {
			assert.True(t, deployment.HasPassword(url))
		}
	})
}
