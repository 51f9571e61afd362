package timing_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// looped is a loop whose steps are written down. next is what they return.
type looped struct {
	*timing.Loop
	clock *timing.Clock
	begun time.Time
	over  chan struct{}

	mu    sync.Mutex
	steps []time.Duration // when
	next  func(now timing.Instant) timing.Instant
}

func newLooped(next func(now timing.Instant) timing.Instant) *looped {
	clock := timing.NewClock(func() time.Duration { return 0 })
	l := &looped{
		Loop: timing.NewLoop(clock), clock: clock,
		begun: time.Now(), over: make(chan struct{}), next: next,
	}
	go func() {
		defer close(l.over)
		l.Run(l.step)
	}()
	return l
}

func (l *looped) step() timing.Instant {
	l.mu.Lock()
	l.steps = append(l.steps, time.Since(l.begun))
	next := l.next
	l.mu.Unlock()
	return next(l.clock.Now())
}

func (l *looped) taken() []time.Duration {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.steps
	l.steps = nil
	return taken
}

func never(timing.Instant) timing.Instant { return timing.Never }

// at is the instant so long after the clock was made, which is at 1.
func at(d time.Duration) timing.Instant { return timing.Instant(1).Add(d) }

func TestALoopStepsAtTheEarliestInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLooped(never)
		assert.Equal(t, []time.Duration{0}, l.taken(), "the first is at once")
		l.WakeBy(at(5 * time.Second))
		l.WakeBy(at(3 * time.Second))
		l.WakeBy(at(4 * time.Second))
		<-time.After(10 * time.Second)
		assert.Equal(t, []time.Duration{3 * time.Second}, l.taken(), "the step returned Never")
		l.WakeBy(at(time.Second)) // which has passed
		assert.Equal(t, []time.Duration{10 * time.Second}, l.taken())
		<-time.After(3 * time.Hour)
		assert.Empty(t, l.taken())
		l.Stop()
		<-l.over
	})
}

func TestAStepSaysWhenTheNextIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := newLooped(func(now timing.Instant) timing.Instant {
			n++
			if n < 3 {
				return now // more is due
			}
			return now.Add(2 * time.Hour)
		})
		assert.Equal(t, []time.Duration{0, 0, 0}, l.taken())
		<-time.After(5 * time.Hour)
		assert.Equal(t, []time.Duration{2 * time.Hour, 4 * time.Hour}, l.taken())
		l.Stop()
		l.Stop() // a second time changes nothing
		<-l.over
	})
}

// What is entered while a step is under way is not forgotten, whatever the step
// returns.
func TestAnInstantGivenDuringAStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newLooped(func(timing.Instant) timing.Instant {
			<-release
			return timing.Never
		})
		synctest.Wait() // it is in its first step
		l.WakeBy(at(time.Second))
		close(release)
		<-time.After(10 * time.Second)
		assert.Equal(t, []time.Duration{0, time.Second}, l.taken())
		l.Stop()
		<-l.over
	})
}

// A loop ends after the step that is under way, and a stopped one steps no
// more.
func TestAStoppedLoopStepsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newLooped(func(now timing.Instant) timing.Instant {
			<-release
			return now
		})
		synctest.Wait()
		l.Stop()
		close(release)
		<-l.over
		l.WakeBy(0)
		assert.Len(t, l.taken(), 1)
	})
}

// Against many goroutines: no instant passes without a step at it or after it.
func TestNoInstantIsForgotten(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	entered := map[int]bool{} // what is due now
	clock := timing.NewClock(func() time.Duration { return 0 })
	l := timing.NewLoop(clock)
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Run(func() timing.Instant {
			mu.Lock()
			defer mu.Unlock()
			clear(entered)
			return timing.Never
		})
	}()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				mu.Lock()
				entered[8*i+g] = true
				mu.Unlock()
				l.WakeBy(clock.AtMost())
			}
		})
	}
	wg.Wait()
	assert.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(entered) == 0
	}, 10*time.Second, time.Millisecond)
	l.Stop()
	<-over
}
