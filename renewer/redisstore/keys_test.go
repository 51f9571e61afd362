package redisstore_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"order:42":    "p:{order:42}",
		"a}b":         "p:{a%7Db}",
		"{a}":         "p:{%7Ba%7D}",
		"100%":        "p:{100%25}",
		"%7D":         "p:{%257D}",
		"nul\x00\x1f": "p:{nul%00%1F}",
		"del\x7f":     "p:{del%7F}",
		"näme\xff":    "p:{näme\xff}",
		"":            "p:{}",
	} {
		lease, fence := redisstore.LockKeys("p:", name)
		assert.Equal(t, want, lease)
		assert.Equal(t, want+":fence", fence)
		assert.Equal(t, want, redisstore.LeaseKey("p:", name))
	}
}

func TestManyKeysAtOnce(t *testing.T) {
	t.Parallel()
	holds := []contract.Hold{
		{Name: "order:42"},
		{Name: "a}b"},
		{Name: ""},
		{Name: "100%"},
		{Name: "näme\xff"},
	}
	keys := redisstore.LeaseKeys("p:", holds)
	for i, h := range holds {
		assert.Equal(t, redisstore.LeaseKey("p:", h.Name), keys[i])
	}
}

// The key that is told is the one that is used.
func TestKeyIsWhereTheLeaseIs(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t, redisstore.Prefix("p:"))
		claim := contract.Claim{
			Name: "{odd}\n", Owner: strings.Repeat("o", contract.OwnerLen),
			TTL: time.Minute,
		}
		require.Equal(t, contract.StatusHeld,
			store.Acquire(t.Context(), []contract.Claim{claim})[0].Status)
		assert.Equal(t, int64(1), s.number(t, "EXISTS", redisstore.LeaseKey("p:", claim.Name)))
		assert.Equal(t, int64(1), s.number(t, "EXISTS", redisstore.MarkKey("p:")))
	})
}

func FuzzKeys(f *testing.F) {
	f.Add("order:42", "order:43")
	f.Add("a}b", "a%7Db")
	f.Add("{", "%7B")
	f.Add("%", "%25")
	f.Add("\x00", "%00")
	f.Add("x", "x}:fence")
	f.Add("%41", "lockbeat:{%41}")
	f.Add("a{", "lockbeat:{a%7B}")
	f.Fuzz(func(t *testing.T, a, b string) {
		const prefix = "lockbeat:"
		keyA, fenceA := redisstore.LockKeys(prefix, a)
		keyB, fenceB := redisstore.LockKeys(prefix, b)
		require.Equal(t, a == b, keyA == keyB, "one name, one key")
		require.NotEqual(t, keyA, fenceB, "no lease is another's counter")
		require.NotEqual(t, fenceA, keyB)

		inner := strings.TrimSuffix(strings.TrimPrefix(keyA, prefix+"{"), "}")
		require.Equal(t, prefix+"{"+inner+"}", keyA)
		require.NotContains(t, inner, "{", "one hash tag, which is the name")
		require.NotContains(t, inner, "}")
		require.False(t, strings.ContainsFunc(inner, func(r rune) bool {
			return r < 0x20 || r == 0x7f
		}))
		name, err := url.PathUnescape(inner)
		require.NoError(t, err)
		require.Equal(t, a, name, "the name can be read back")
		require.NotEqual(t, redisstore.ProbeName, inner, "New asks by a key that no lock has")
	})
}

// The slot of a lock is that of its keys, whatever its name.
func TestSlotOfALock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "order:42", "{a}", "a{b}c", "}{", "%", "\x00", "é",
		strings.Repeat("x", 512),
	} {
		key := redisstore.LeaseKey(redisstore.DefaultPrefix, name)
		assert.Equal(t, redistest.Slot(key), redisstore.SlotOf(name), "%q", name)
	}
}
