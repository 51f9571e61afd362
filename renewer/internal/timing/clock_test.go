package timing_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

func TestNoSumPassesNever(t *testing.T) {
	t.Parallel()
	assert.Equal(t, timing.Never, timing.Instant(1).Add(1<<63-1))
	assert.Equal(t, timing.Never, timing.Never.Add(time.Second))
	assert.Equal(t, timing.Instant(time.Second), timing.Instant(3*time.Second).Add(-2*time.Second))
	assert.Equal(t, time.Second, timing.Instant(3*time.Second).Sub(timing.Instant(2*time.Second)))
}

// A suspend counts from the first reading of Now, within a
// millisecond in Recent, and in AtMost once another call has seen it.
func TestTheClockCountsSuspends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slept := time.Hour // before the clock was made: it doesn't count
		c := timing.NewClock(func() time.Duration { return slept })
		assert.Equal(t, timing.Instant(1), c.Now())
		<-time.After(10 * time.Millisecond)
		assert.Equal(t, 10*time.Millisecond, c.Recent().Sub(1))

		slept += time.Minute
		assert.Equal(t, 10*time.Millisecond, c.AtMost().Sub(1))
		assert.Equal(t, 10*time.Millisecond, c.Recent().Sub(1), "it has just looked")
		assert.Equal(t, time.Minute+10*time.Millisecond, c.Now().Sub(1))
		assert.Equal(t, time.Minute+10*time.Millisecond, c.AtMost().Sub(1))

		slept += time.Minute
		<-time.After(2 * time.Millisecond)
		assert.Equal(t, 2*time.Minute+12*time.Millisecond, c.Recent().Sub(1))

		slept += 999 * time.Microsecond // the jitter of two clocks
		assert.Equal(t, 2*time.Minute+12*time.Millisecond, c.Now().Sub(1))
	})
}
