package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
)

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
					name, beside, ok := redisstore.ReadKey("p:", redisstore.KeyOf("p:", want)+with)
					require.True(t, ok)
					assert.Equal(t, want, name)
					assert.Equal(t, with, beside)
				}
			}
		}
		if name, beside, ok := redisstore.ReadKey("p:", text); ok {
			assert.Equal(t, text, redisstore.KeyOf("p:", name)+beside)
		}
	})
}
