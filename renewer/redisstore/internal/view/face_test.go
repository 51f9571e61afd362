package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/view"
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
