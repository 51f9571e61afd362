package httpmw_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// Different values of a route's wildcards name different locks, and
// so do different paths of different routes.
func FuzzPathValueNames(f *testing.F) {
	f.Add(0, "a", "7", 0, "a", "7")
	f.Add(0, "a/x/b", "7", 0, "a", "b/x/7")
	f.Add(0, "a%2Fx", "7", 0, "a/x", "7")
	f.Add(0, "accounts", "7", 1, "", "7")
	f.Add(3, "1-2", "3", 3, "1", "2-3")
	f.Add(3, "1%2D2", "3", 3, "1", "2-3")
	f.Add(4, "1.", "3", 4, "1", ".3")
	f.Add(1, "", "%2%35", 1, "", "%")
	f.Add(2, "", "{id}\x00", 2, "", "%00")
	patterns := []string{
		"/{t}/x/{id}", "POST host/accounts/x/{id}", "/{id}", "/{t}-{id:[^/]{1,9}}",
		"/{t}.{id}/y",
	}
	f.Fuzz(func(t *testing.T, i int, t1, id1 string, j int, t2, id2 string) {
		i, j = int(uint(i)%5), int(uint(j)%5)
		value := func(t, id string) func(string) string {
			return func(name string) string { return map[string]string{"t": t, "id": id}[name] }
		}
		one, known := httpmw.Resource(patterns[i], "id", value(t1, id1))
		require.True(t, known)
		two, known := httpmw.Resource(patterns[j], "id", value(t2, id2))
		require.True(t, known)
		same := httpmw.Plain(id1) == httpmw.Plain(id2)
		switch parts := func(i int, t string) []string { // of the path, but the last
			return [][]string{{httpmw.Plain(t), "x"}, {"accounts", "x"}, {}}[i]
		}; {
		case i == j && i != 1 && i != 2:
			same = same && httpmw.Plain(t1) == httpmw.Plain(t2)
		case i < 3 && j < 3:
			same = same && assert.ObjectsAreEqual(parts(i, t1), parts(j, t2))
		default:
			return // one segment of several parts may well be the same path as one of one part
		}
		assert.Equal(t, same, one == two, "%q %q", one, two)
		assert.False(t, strings.ContainsFunc(one, func(c rune) bool {
			return c < ' ' || c == 0x7f
		}))
	})
}

// A pattern is the router's, and may be anything.
func FuzzPatterns(f *testing.F) {
	for _, seed := range []string{
		"", "/", "GET /a/{id}/", "{", "/{", "/{}", "/{id", "/}{id}", "/{id:{}}/{id}", "/{id...}x",
		"host/*", "/*", "/*/{id}", "/{$}", "/{id}*",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		name, known := httpmw.Resource(pattern, "id", func(string) string { return "7" })
		assert.Equal(t, known, strings.HasPrefix(name, "/"))
		if known {
			assert.True(t, strings.HasSuffix(name, "7"))
			assert.Contains(t, pattern, "{id")
		}
	})
}

// What is no token is refused, what is one arrives as it was sent. Two are none, even if they
// agree.
func FuzzExtractFence(f *testing.F) {
	for _, seed := range []string{
		"", "0", "1", "-1", "+1", "01", " 1", "1 ", "1e3", "0x1", "1_0", "١", "9007199254740991",
		"9007199254740992", "9223372036854775807",
		"9223372036854775808", "1,2", "1\r\nX: 2", strings.Repeat("9", 1<<16),
	} {
		f.Add(seed, uint8(1))
		f.Add(seed, uint8(2))
	}
	f.Fuzz(func(t *testing.T, value string, times uint8) {
		header := http.Header{}
		for range times {
			header.Add(httpmw.FenceHeader, value)
		}
		ctx, err := httpmw.ExtractFence(t.Context(), header)
		fence, _ := strconv.ParseInt(value, 10, 64)
		switch good := fence > 0 && fence < 1<<53 && strconv.FormatInt(fence, 10) == value; {
		case times == 0:
			require.NoError(t, err)
			assert.Zero(t, lockmw.Fence(ctx))
		case times > 1 || !good:
			require.ErrorIs(t, err, httpmw.ErrFence)
			assert.Nil(t, ctx)
			assert.Less(t, len(err.Error()), 200, "an outsider's words stay out of logs")
		default:
			require.NoError(t, err)
			assert.Equal(t, fence, lockmw.Fence(ctx))
			h := http.Header{}
			httpmw.InjectFence(ctx, h)
			assert.Equal(t, value, h.Get(httpmw.FenceHeader))
		}
	})
}
