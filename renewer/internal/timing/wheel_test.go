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

// Against a map, through random insertions, moves, removals and a clock that
// goes on in steps of all sizes.
func TestAWheelKeepsOrder(t *testing.T) {
	t.Parallel()
	for name, round := range map[string]time.Duration{
		"within a round": 5120, "many rounds ahead": 1, "everything in one span": 1000 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range suite.Size[uint64](4, 30) {
				play(t, timing.NewWheel(round, placeOf), seed)
			}
		})
	}
}

func play(t *testing.T, wheel *timing.Wheel[*element], seed uint64) {
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
			wheel.Remove(&elements[i])
			delete(want, i)
		case 1:
			now += timing.Instant(random.Int64N(1 << random.IntN(12)))
			take(t, wheel, want, now, 1+random.IntN(n))
		default:
			at := max(now-20+timing.Instant(random.Int64N(3000)), 0)
			wheel.Set(&elements[i], at)
			want[i] = at
		}
		earliest := timing.Never
		for _, at := range want {
			earliest = min(earliest, at)
		}
		if wheel.First() != earliest { // as checks of each would take a minute
			require.Fail(t, "the first is not the earliest", "seed %d: %d, not %d", seed,
				wheel.First(), earliest)
		}
	}
	take(t, wheel, want, now+10_000, n)
	require.Empty(t, want)
	for _, e := range elements {
		require.Equal(t, timing.Nowhere, e.place)
	}
}

// take checks that what is due comes out, and nothing else.
func take(
	t *testing.T, wheel *timing.Wheel[*element], want map[int]timing.Instant, now timing.Instant,
	most int,
) {
	t.Helper()
	due := 0
	for _, at := range want {
		if at <= now {
			due++
		}
	}
	var taken []*element
	wheel.Take(now, most, func(e *element) { taken = append(taken, e) })
	require.Len(t, taken, min(due, most), fmt.Sprint("at ", now))
	for _, e := range taken {
		require.Contains(t, want, e.number)
		require.LessOrEqual(t, want[e.number], now)
		delete(want, e.number)
	}
}

// What is taken may be entered anew, for later, and what is at hand may be
// taken out: of buckets that are as full as others, and of one that is not.
func TestAWheelChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	const round, n = 5120, 20_000
	wheel := timing.NewWheel(round, placeOf)
	elements := make([]element, n)
	for i := range elements {
		elements[i].number = i
		wheel.Set(&elements[i], timing.Instant(i%round))
	}
	for _, now := range []timing.Instant{0, round / 2, round, 3 * round, 9 * round} {
		taken := 0
		wheel.Take(now, n, func(e *element) {
			taken++
			at := now + 1 + timing.Instant(e.number%round)
			if e.number%4 == 0 {
				at = now + 2*round // the span that is being read
			}
			wheel.Set(e, at)
		})
		assert.Positive(t, taken)
		assert.Equal(t, n, wheel.Len())
		assert.Greater(t, wheel.First(), now)
	}
	seen := 0
	for e := range wheel.All() {
		seen++
		wheel.Remove(e)
		wheel.Remove(e) // which is not in
	}
	assert.Equal(t, n, seen)
	assert.Zero(t, wheel.Len())
	assert.Equal(t, timing.Never, wheel.First())
}
