package once_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// BenchmarkDo is work that runs here, with its record in memory, and work that was done before.
func BenchmarkDo(b *testing.B) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(b, err)
	b.Cleanup(func() { _ = k.Shutdown(context.WithoutCancel(b.Context())) })
	work := func(context.Context) (int, error) { return 1, nil }
	b.Run("runs", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := once.Do(b.Context(), k, strconv.Itoa(i), work); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("was done", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := once.Do(b.Context(), k, "done", work); err != nil {
				b.Fatal(err)
			}
		}
	})
}
