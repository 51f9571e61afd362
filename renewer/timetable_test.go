package renewer_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
)

// Against a map, through random insertions, moves, removals and a
// clock that goes on in steps of all sizes.
func TestTimetablesKeepOrder(t *testing.T) {
	t.Parallel()
	const n = 300
	for name, fresh := range map[string]func() *renewer.Timetable{
		"heap": func() *renewer.Timetable { return renewer.NewHeap(n) },
		"wheel": func() *renewer.Timetable {
			return renewer.NewWheel(n, 10)
		},
		"wheel, many rounds ahead": func() *renewer.Timetable {
			return renewer.NewWheel(n, 1)
		},
		"wheel, everything in one span": func() *renewer.Timetable {
			return renewer.NewWheel(n, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(30) {
				random := rand.New(rand.NewPCG(seed, 2))
				table, want := fresh(), map[int]int64{}
				now := int64(0)
				for range 2000 {
					i := random.IntN(n)
					switch random.IntN(6) {
					case 0:
						table.Remove(i)
						delete(want, i)
					case 1:
						now += random.Int64N(1 << random.IntN(12))
						take(t, table, want, now, 1+random.IntN(n))
					default:
						at := now - 20 + random.Int64N(3000)
						at = max(at, 0)
						table.Set(i, at)
						want[i] = at
					}
					first, some := table.First()
					earliest := first
					for _, at := range want {
						earliest = min(earliest, at)
					}
					// as checks of each would take a minute
					if some != (len(want) > 0) || some && first > earliest {
						require.Fail(t, "the first is not the earliest", "seed %d: %d, not %d",
							seed, first, earliest)
					}
				}
				take(t, table, want, now+10_000, n)
				require.Empty(t, want)
			}
		})
	}
}

// take checks that what is due comes out, and nothing else.
func take(t *testing.T, table *renewer.Timetable, want map[int]int64, now int64, most int) {
	t.Helper()
	due := 0
	for _, at := range want {
		if at <= now {
			due++
		}
	}
	taken := table.Take(now, most)
	require.Len(t, taken, min(due, most), fmt.Sprint("at ", now))
	for _, i := range taken {
		require.Contains(t, want, i)
		require.LessOrEqual(t, want[i], now)
		delete(want, i)
	}
}
