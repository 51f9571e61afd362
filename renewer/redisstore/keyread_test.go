package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// Each name is read from its key, and no other key is one of a name.
func FuzzReadKey(f *testing.F) {
	for _, text := range []string{
		"a", "order:42", "a}b", "%", "%7D", "nul\x00", "\x00lockbeat-limit:x", "}:slots", "p:{a}",
		"p:{%7D}", "p:{%7d}", "p:{%41}", "p:{a}:slots", "p:{a}:slots:waiters", "p:{a}:slot:x", "p:{a}:slotsx", "p:{}", "p:{%}",
		"p:{%0}", "p:{a}b}", "pp:{a}", "p:{%00lockbeat-limit:x}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if plain, limit := contract.CutLimit(text); plain != "" && len(plain) <= contract.MaxName &&
			(!limit || !isLimit(plain)) {
			for _, with := range []string{"", ":waiters", ":tasks:}{"} {
				key := redisstore.LeaseKey("p:", text) + with
				name, beside, ok := redisstore.ReadKey("p:", key)
				require.True(t, ok)
				assert.Equal(t, text, name)
				assert.Equal(t, with, beside)
			}
		}
		if name, beside, ok := redisstore.ReadKey("p:", text); ok {
			assert.Equal(t, text, redisstore.LeaseKey("p:", name)+beside)
		}
	})
}

func isLimit(name string) bool {
	_, limit := contract.CutLimit(name)
	return limit
}
