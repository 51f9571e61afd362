package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/view"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Whatever is in a face, nothing that can't be printed is shown of it.
func FuzzFace(f *testing.F) {
	for _, text := range []string{
		"", "v1.0.0", "v1\n7\nnode\n42\nop", "v1\n7\nnode\n42\nop\n8\nnode\n42\n", "\n\n\n\n",
		"v\x1b\n18446744073709551615\n\x1b[31m\n-1\n" + strings.Repeat("x", 100),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, number := range []uint64{7, 9, 1<<64 - 1} {
			who, version := view.ReadFace(text, number)
			for _, shown := range []string{who.Node, who.Operation, version} {
				assert.LessOrEqual(t, len(shown), schema.MaxPart)
				assert.NotContains(t, shown, "\x1b")
			}
			assert.GreaterOrEqual(t, who.PID, 0)
			assert.Empty(t, who.Trace)
		}
	})
}

// A place that its process does not tell of is of that process all the same.
func TestReadFace(t *testing.T) {
	t.Parallel()
	const text = "v1.0.0\n7\nnode\n42\nop\n8\nnode\n42\nother"
	for number, operation := range map[uint64]string{7: "op", 8: "other", 9: ""} {
		who, version := view.ReadFace(text, number)
		assert.Equal(t, store.Holder{Node: "node", PID: 42, Operation: operation}, who)
		assert.Equal(t, "v1.0.0", version)
	}
	who, _ := view.ReadFace("", 7)
	assert.Equal(t, store.Holder{}, who, "whose face is not there")
}
