package renewer_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// Against a sorted list, through random insertions, moves and removals.
func TestAgendaKeepsOrder(t *testing.T) {
	t.Parallel()
	const n = 200
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		a, want := renewer.NewAgenda(n), make(map[int]int64)
		for range 2000 {
			i := random.IntN(n)
			if random.IntN(3) == 0 {
				a.Remove(i)
				delete(want, i)
			} else {
				at := random.Int64N(500)
				a.Set(i, at)
				want[i] = at
			}
			require.Equal(t, len(want), a.Len())
		}
		var sorted []int64
		for _, at := range want {
			sorted = append(sorted, at)
		}
		slices.Sort(sorted)
		for _, at := range sorted {
			require.Equal(t, at, a.Pop(), "seed %d", seed)
		}
		require.Zero(t, a.Len())
	}
}
