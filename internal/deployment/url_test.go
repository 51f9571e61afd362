package deployment_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/deployment"
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
	} {
		_, _, _, _, faults := deployment.ParseURL(bad)
		assert.NotEmpty(t, faults, bad)
	}
}

// Wherever a secret is in a URL, a fault does not show it; and a URL with a password is known to
// have one.
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
