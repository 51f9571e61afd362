package renewer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// 64 goroutines on one name: what a hand-off costs.
func BenchmarkHandOff(b *testing.B) {
	for name, n := range map[string]int{"handed over": 0, "through the store": -1} {
		b.Run(name, func(b *testing.B) {
			k, err := renewer.New(memory.New(), renewer.Config{TTL: 10 * time.Second, HandOffs: n})
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, k.Shutdown(context.Background())) })
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l, err := k.Acquire(context.Background(), "name")
					if err == nil {
						err = l.Release(context.Background())
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
