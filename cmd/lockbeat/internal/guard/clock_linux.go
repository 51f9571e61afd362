package guard

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Now reads the clock: CLOCK_BOOTTIME, which counts the time for which the
// machine was suspended.
func Now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 1<<63 - 1 // later than every deadline, which is safe; Linux has it since 2.6.39
	}
	return Instant(t.Nano())
}

// alarm is a timer of that clock: it also rings at once after a suspend, as
// Go's do not.
type alarm struct {
	C    chan struct{} // is sent to when the instant has come
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	a := &alarm{C: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "timer"), fd: fd}
	go func() {
		for buf := make([]byte, 8); ; {
			if _, err := a.file.Read(buf); err != nil {
				return // it is closed
			}
			select {
			case a.C <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// set has the alarm ring at an instant, in place of the one before.
func (a *alarm) set(at Instant) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(at)))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	return nil
}

func (a *alarm) close() { _ = a.file.Close() }
