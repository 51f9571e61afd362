package schema_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// lockKeys are the keys of a lock's lease, and of the counter of the tokens
// that it was given.
func lockKeys(prefix, name string) (lease, fence string) {
	lease = schema.LockKey(prefix, name)
	return lease, lease + schema.FenceSuffix
}

// leaseKeys writes the keys of many leases.
func leaseKeys(prefix string, holds []store.Hold) (keys []string) {
	var w schema.KeyWriter
	w.Begin(prefix, holds)
	for range holds {
		keys = append(keys, w.Next())
	}
	return keys
}

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
		lease, fence := lockKeys("p:", name)
		assert.Equal(t, want, lease)
		assert.Equal(t, want+":fence", fence)
		assert.Equal(t, want, schema.LockKey("p:", name))
	}
}

func TestManyKeysAtOnce(t *testing.T) {
	t.Parallel()
	holds := []store.Hold{
		{Name: "order:42"},
		{Name: "a}b"},
		{Name: ""},
		{Name: "100%"},
		{Name: "näme\xff"},
	}
	keys := leaseKeys("p:", holds)
	for i, h := range holds {
		assert.Equal(t, schema.LockKey("p:", h.Name), keys[i])
	}
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
		keyA, fenceA := lockKeys(prefix, a)
		keyB, fenceB := lockKeys(prefix, b)
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
		require.NotEqual(t, "%", inner, "New asks by a key that no lock has")
	})
}

// The slot of a lock is that of its keys, whatever its name.
func TestSlotOfALock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a", "order:42", "{a}", "a{b}c", "}{", "%", "\x00", "é",
		strings.Repeat("x", 512),
	} {
		key := schema.LockKey("lockbeat:", name)
		assert.Equal(t, redistest.Slot(key), int(schema.SlotOf(name)), "%q", name)
	}
}

// Each name is read from its key, and no other key is one of a name.
func FuzzReadKey(f *testing.F) {
	for _, text := range []string{
		"a", "order:42", "a}b", "%", "%7D", "nul\x00", "}:slots", "p:{a}",
		"p:{%7D}", "p:{%7d}", "p:{%41}", "p:{a}:slots", "p:{a}:slots:waiters", "p:{a}:slot:x", "p:{a}:slotsx", "p:{}", "p:{%}",
		"p:{%0}", "p:{a}b}", "pp:{a}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" && len(text) <= store.MaxName {
			for _, limit := range []bool{false, true} {
				for _, with := range []string{"", ":waiters", ":tasks:}{"} {
					want := contract.Name{Text: text, Limit: limit}
					name, beside, ok := schema.ReadKey("p:", schema.LeaseKey("p:", want)+with)
					require.True(t, ok)
					assert.Equal(t, want, name)
					assert.Equal(t, with, beside)
				}
			}
		}
		if name, beside, ok := schema.ReadKey("p:", text); ok {
			assert.Equal(t, text, schema.LeaseKey("p:", name)+beside)
		}
	})
}
