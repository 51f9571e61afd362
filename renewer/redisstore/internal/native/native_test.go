package native_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/native"
)

const token = 1_795_000_000_000_000

// A claim may be native for a moment after a script, and a token counts that is
// near the clock.
func TestForAMomentAfterAScript(t *testing.T) {
	t.Parallel()
	quiet := true
	r := native.Rule{Quiet: func() bool { return quiet }}
	may := func(now time.Time) bool {
		_, ok := r.May(now)
		return ok
	}
	sent := time.Now()
	got := sent.Add(time.Millisecond)
	assert.False(t, may(sent), "no script yet")
	assert.False(t, r.Granted(token, sent))
	r.Script(token, sent, got)
	assert.True(t, may(sent.Add(native.Lag)))
	assert.False(t, may(sent.Add(native.Lag+time.Microsecond)))

	now := sent.Add(80 * time.Millisecond)
	clock, _ := r.May(now)
	assert.Equal(t, int64(token+79_000), clock, "at least that")
	assert.False(t, r.Granted(token-20_001, now))
	assert.False(t, r.Some())
	assert.True(t, r.Granted(token-20_000, now))
	assert.True(t, r.Some())
	assert.False(t, may(now.Add(time.Microsecond)), "the latest token counts")
	quiet = false
	assert.False(t, may(sent))
	assert.False(t, r.Granted(token, sent), "a connection was made meanwhile")
}

// A machine that was suspended, and a clock on the wall that was set back, make
// the reckoned clock no slower.
func TestWhicheverClockShowsMore(t *testing.T) {
	t.Parallel()
	r := native.Rule{Quiet: func() bool { return true }}
	sent := time.Now()
	r.Script(token, sent.Round(0), sent)
	awake := sent.Add(native.Lag)
	assert.True(t, r.Granted(token, awake))
	// After a suspend the clock on the wall has gone on, and the other has not:
	// a time without that other one stands for it.
	assert.False(t, r.Granted(token, awake.Add(time.Hour).Round(0)))
}

// A grant that is told again is of an earlier time.
func TestAnOldGrantSetsNoClock(t *testing.T) {
	t.Parallel()
	r := native.Rule{Quiet: func() bool { return true }}
	sent := time.Now()
	r.Script(token, sent, sent)
	later := sent.Add(10 * time.Second)
	r.Script(token, later, later)
	_, may := r.May(later)
	assert.False(t, may)
	assert.False(t, r.Granted(token+1, later))
}

func TestAfterARefusal(t *testing.T) {
	t.Parallel()
	r := native.Rule{Quiet: func() bool { return true }}
	now := time.Now()
	r.Script(token, now, now)
	r.Refused(false)
	asked := 0
	for ok := false; !ok; asked++ {
		_, ok = r.May(now)
	}
	assert.Equal(t, 17, asked)
	r.Refused(true)
	for range 100 {
		_, ok := r.May(now)
		assert.False(t, ok)
	}
}
