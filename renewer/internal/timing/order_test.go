package timing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// element is what the tests order.
type element struct {
	number int
	place  timing.Place
}

func placeOf(e *element) *timing.Place { return &e.place }

// timetable is what the heap and the wheel have in common.
type timetable interface {
	Set(e *element, at timing.Instant)
	Remove(e *element)
	First() timing.Instant
}

// takeDue takes out what is due by now, at most so many.
func takeDue(table timetable, now timing.Instant, most int) (taken []*element) {
	switch table := table.(type) {
	case *timing.Wheel[*element]:
		table.Take(now, most, func(e *element) { taken = append(taken, e) })
	case *timing.DeadlineHeap[*element]:
		for len(taken) < most {
			e, ok := table.Due(now)
			if !ok {
				break
			}
			table.Remove(e)
			taken = append(taken, e)
		}
	}
	return taken
}

// Against a map, through random insertions, moves, removals and a clock that goes on in steps of
// all sizes.
func TestTimetablesKeepOrder(t *testing.T) {
	t.Parallel()
	wheel := func(round time.Duration) func() timetable {
		return func() timetable { return timing.NewWheel(round, placeOf) }
	}
	for name, fresh := range map[string]func() timetable{
		"heap": func() timetable {
			return timing.NewDeadlineHeap(placeOf)
		},
		"wheel":                         wheel(5120),
		"wheel, many rounds ahead":      wheel(1),
		"wheel, everything in one span": wheel(1000 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range suite.Size[uint64](8, 30) {
				play(t, fresh(), seed)
			}
		})
	}
}

func play(t *testing.T, table timetable, seed uint64) {
	t.Helper()
	const n = 300
	elements := make([]element, n)
	for i := range elements {
		elements[i].number = i
	}
	random := rand.New(rand.NewPCG(seed, 2))
	want := map[int]timing.Instant{}
	now := timing.Instant(0)
	for range 2000 {
		i := random.IntN(n)
		switch random.IntN(6) {
		case 0:
			table.Remove(&elements[i])
			delete(want, i)
		case 1:
			now += timing.Instant(random.Int64N(1 << random.IntN(12)))
			take(t, table, want, now, 1+random.IntN(n))
		default:
			at := max(now-20+timing.Instant(random.Int64N(3000)), 0)
			table.Set(&elements[i], at)
			want[i] = at
		}
		earliest := timing.Never
		for _, at := range want {
			earliest = min(earliest, at)
		}
		if table.First() != earliest { // as checks of each would take a minute
			require.Fail(t, "the first is not the earliest", "seed %d: %d, not %d", seed,
				table.First(), earliest)
		}
	}
	take(t, table, want, now+10_000, n)
	require.Empty(t, want)
	for _, e := range elements {
		require.Equal(t, timing.Nowhere, e.place)
	}
}

// take checks that what is due comes out, and nothing else.
func take(
	t *testing.T, table timetable, want map[int]timing.Instant, now timing.Instant, most int,
) {
	t.Helper()
	due := 0
	for _, at := range want {
		if at <= now {
			due++
		}
	}
	taken := takeDue(table, now, most)
	require.Len(t, taken, min(due, most), fmt.Sprint("at ", now))
	for _, e := range taken {
		require.Contains(t, want, e.number)
		require.LessOrEqual(t, want[e.number], now)
		delete(want, e.number)
	}
}

func TestAllOfTheHeap(t *testing.T) {
	t.Parallel()
	heap := timing.NewDeadlineHeap(placeOf)
	elements := make([]element, 10)
	for i := range elements {
		heap.Set(&elements[i], timing.Instant(100-i))
	}
	heap.Remove(&elements[9])
	heap.Remove(&elements[9]) // which is not in
	all := 0
	for range heap.All() {
		all++
	}
	assert.Equal(t, 9, all)
	_, ok := heap.Due(91)
	assert.False(t, ok)
	first, ok := heap.Due(92)
	assert.True(t, ok)
	assert.Same(t, &elements[8], first)
}
