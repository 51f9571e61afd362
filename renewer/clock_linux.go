package renewer

import (
	"time"

	"golang.org/x/sys/unix"
)

// timeSlept is how long the machine has been suspended since it booted: Linux'
// CLOCK_MONOTONIC, by which Go measures, stands still meanwhile and CLOCK_BOOTTIME does not.
func timeSlept() time.Duration {
	var before, boot, after unix.Timespec
	for range 3 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0
		}
		// A preemption between the readings looks like sleep. Read
		// again, so that it can't end a lease.
		if after.Nano()-before.Nano() < int64(leastSleep)/2 {
			break
		}
	}
	return time.Duration(boot.Nano() - after.Nano())
}
