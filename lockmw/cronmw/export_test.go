package cronmw

import "time"

// SetClock gives a node's later jobs a clock.
func (n *Node) SetClock(clock func() time.Time) { n.clock = clock }
