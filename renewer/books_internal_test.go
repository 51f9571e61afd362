package renewer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Against a look at each lease: leases come, go, hand over and are renewed, over several segments,
// and each that is held ends at the first instant at which it has to.
func TestNoLeaseOutlivesItsBound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	within := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	var b books
	var now instant
	fresh := func() *Lease {
		l := &Lease{state: stateHeld}
		l.until.Store(int64(now.Add(1 + within(time.Second))))
		return l
	}
	for i := range 20_000 {
		n := len(b.leases)
		switch random.IntN(6) {
		case 0, 1:
			b.enter(fresh())
		case 2:
			if n > 2*segment {
				b.forget(b.leases[random.IntN(n)])
			}
		case 3:
			if n > 0 {
				b.replace(b.leases[random.IntN(n)], fresh())
			}
		case 4:
			if n > 0 { // a heartbeat moves its end on, and no bound
				l := b.leases[random.IntN(n)]
				if l.state == stateHeld {
					l.until.Store(max(l.until.Load(), int64(now.Add(time.Second))))
				}
			}
		default:
			now = now.Add(within(time.Millisecond))
			b.over(now, func(l *Lease) {
				require.LessOrEqual(t, instant(l.until.Load()), now)
				l.end(stateLost)
			})
			require.Greater(t, b.firstBound(), now)
		}
		if i%8 == 0 { // it looks at each lease
			requireNoneBefore(t, &b, b.firstBound())
		}
	}
	require.Greater(t, len(b.bounds), 2)
}

// A lease that fills a gap in another segment takes its end along.
func TestABoundMovesWithItsLease(t *testing.T) {
	t.Parallel()
	var b books
	for i := range segment + 1 {
		l := &Lease{state: stateHeld}
		l.until.Store(int64(time.Hour) - int64(i)) // the last is the earliest
		b.enter(l)
	}
	last := b.leases[segment]
	b.forget(b.leases[0])
	require.Same(t, last, b.leases[0])
	b.bounds[1] = never // as when the loop looks
	require.Equal(t, instant(last.until.Load()), b.firstBound())
}

func requireNoneBefore(t *testing.T, b *books, first instant) {
	t.Helper()
	for _, l := range b.leases {
		if l.state == stateHeld && instant(l.until.Load()) < first {
			require.Fail(t, "a lease ends before the first bound")
		}
	}
}
