//go:build unix

package run

import "time"

// Ahead is how much earlier a command is asked to end if looks at its processes
// take so long.
func Ahead(ttl, grace, look time.Duration) time.Duration {
	r := running{options: options{ttl: ttl, grace: grace}, look: look}
	return r.ahead()
}
