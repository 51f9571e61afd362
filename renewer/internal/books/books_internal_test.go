package books

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

type lease struct {
	index int32
	end   timing.Instant
}

func newBooks() Books[*lease] {
	return New(Config[*lease]{
		Index: func(l *lease) *int32 { return &l.index },
		End:   func(l *lease) timing.Instant { return l.end },
	})
}

// Against a look at each lease: leases come, go, hand over and are renewed, over several segments,
// and each that is held ends at the first timing.Instant at which it has to.
func TestNoLeaseOutlivesItsBound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	within := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	b := newBooks()
	var now timing.Instant
	fresh := func() *lease {
		return &lease{end: now.Add(1 + within(time.Second))}
	}
	for i := range 20_000 {
		n := len(b.leases)
		switch random.IntN(6) {
		case 0, 1:
			b.Enter(fresh())
		case 2:
			if n > 2*segment {
				b.Forget(b.leases[random.IntN(n)])
			}
		case 3:
			if n > 0 {
				b.Replace(b.leases[random.IntN(n)], fresh())
			}
		case 4:
			if n > 0 { // a heartbeat moves its end on, and no bound
				l := b.leases[random.IntN(n)]
				if l.end != timing.Never {
					l.end = max(l.end, now.Add(time.Second))
				}
			}
		default:
			now = now.Add(within(time.Millisecond))
			b.EndDue(now, func(l *lease) {
				require.LessOrEqual(t, l.end, now)
				l.end = timing.Never
			})
			require.Greater(t, b.FirstBound(), now)
		}
		if i%8 == 0 { // it looks at each lease
			requireNoneBefore(t, &b, b.FirstBound())
		}
	}
	require.Greater(t, len(b.bounds), 2)
}

// A lease that fills a gap in another segment takes its end along.
func TestABoundMovesWithItsLease(t *testing.T) {
	t.Parallel()
	b := newBooks()
	for i := range segment + 1 {
		b.Enter(&lease{end: timing.Instant(int64(time.Hour) - int64(i))}) // the last is the earliest
	}
	last := b.leases[segment]
	b.Forget(b.leases[0])
	require.Same(t, last, b.leases[0])
	b.bounds[1] = timing.Never // as when the loop looks
	require.Equal(t, last.end, b.FirstBound())
}

func requireNoneBefore(t *testing.T, b *Books[*lease], first timing.Instant) {
	t.Helper()
	for _, l := range b.leases {
		if l.end < first {
			require.Fail(t, "a lease ends before the first bound")
		}
	}
}
