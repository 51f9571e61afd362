package cronmw

import "time"

// Option says what to do for one job. All nodes must give a job the same ones.
type Option func(*settings)

type settings struct {
	least time.Duration // 0: the default
	wait  time.Duration // 0: skip
}

// HoldAtLeast is for how long the job's ticks are taken, however
// short the run. Default [Config].HoldAtLeast.
func HoldAtLeast(d time.Duration) Option { return func(s *settings) { s.least = d } }

// Wait has a tick that comes while an earlier one is still being run wait for that,
// for at most d; one node waits, the one that took the tick, and then runs it late.
// Several such ticks wait in no order. Default 0, or less: such a tick is skipped.
func Wait(d time.Duration) Option { return func(s *settings) { s.wait = max(d, 0) } }
