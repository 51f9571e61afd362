//go:build !linux

package renewer

import "time"

// timeSlept is 0 where the system does not tell, or where its monotonic clock counts sleep anyway.
func timeSlept() time.Duration { return 0 }
