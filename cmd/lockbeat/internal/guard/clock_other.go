//go:build unix && !linux

package guard

import "time"

// Now reads the clock: the time of day, since Go offers no other that two
// processes share.
func Now() Instant { return Instant(time.Now().UnixNano()) }

// alarm is a timer of that clock.
type alarm struct {
	C     chan struct{} // is sent to when the instant has come
	timer *time.Timer
}

func newAlarm() (*alarm, error) { return &alarm{C: make(chan struct{}, 1)}, nil }

// set has the alarm ring at an instant, in place of the one before.
func (a *alarm) set(at Instant) error {
	a.close()
	a.timer = time.AfterFunc(time.Duration(at-Now()), func() {
		select {
		case a.C <- struct{}{}:
		default:
		}
	})
	return nil
}

func (a *alarm) close() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
