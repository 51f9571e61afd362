package timing

import (
	"time"

	"golang.org/x/sys/unix"
)

// Slept returns for how long the machine has been suspended since it booted.
// Linux' CLOCK_MONOTONIC, by which Go measures, stands still meanwhile;
// CLOCK_BOOTTIME goes on.
func Slept() time.Duration {
	var before, boot, after unix.Timespec
	for range 3 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0
		}
		// A preemption between the readings looks like a suspend. Read again,
		// so that it can't end a lease.
		if after.Nano()-before.Nano() < int64(leastSleep)/2 {
			break
		}
	}
	return time.Duration(boot.Nano() - after.Nano())
}
