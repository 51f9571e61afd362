package timing

import (
	"sync/atomic"
	"time"
)

// Loop steps at instants: a step does what is due, and returns when something
// is due next.
//
// What it holds true: no instant that was given to [Loop.WakeBy] or returned by
// a step passes without a step at it or after it.
//
// It is woken seldom. It steps when its instant has come, even if what was due
// then is gone; so leases that come and go within an interval wake no
// goroutine. All methods may be called concurrently.
type Loop struct {
	clock *Clock
	at    atomic.Int64  // the instant of the next step; at first 0, which has come
	wake  chan struct{} // at has become earlier, or the loop is over
	over  atomic.Bool
}

// NewLoop returns a loop that has not begun.
func NewLoop(clock *Clock) *Loop { return &Loop{clock: clock, wake: make(chan struct{}, 1)} }

// WakeBy has the loop step at an instant, or before. Call it when the next step
// can see what is due then: after it was entered, or under the lock under which
// it is.
func (l *Loop) WakeBy(at Instant) {
	if l.lower(at) {
		l.signal()
	}
}

// lower makes the instant of the next step no later than at, and reports
// whether it was later.
func (l *Loop) lower(at Instant) bool {
	for {
		old := l.at.Load()
		if int64(at) >= old {
			return false
		}
		if l.at.CompareAndSwap(old, int64(at)) {
			return true
		}
	}
}

func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a signal is there already
	}
}

// Stop ends the loop after the step that is under way, if any.
func (l *Loop) Stop() {
	l.over.Store(true)
	l.signal()
}

// Run steps until Stop, at once for the first time. Only one goroutine may
// call it. A step reads the clock itself, under whichever lock it needs.
func (l *Loop) Run(step func() (next Instant)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for !l.over.Load() {
		now, next := l.clock.Recent(), Instant(l.at.Load())
		if now >= next {
			// before the step, so that an instant given meanwhile is not
			// forgotten
			l.at.Store(int64(Never))
			l.lower(step())
			continue
		}
		timer.Reset(min(next.Sub(now), time.Hour))
		select {
		case <-timer.C:
		case <-l.wake:
		}
	}
}
