package beat

import (
	"math"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/timing"
)

// cohort is the rhythm of leases that were taken one after another, as many as go into a heartbeat:
// they share the instants of their heartbeats. So they stay neighbours there, as they are in the
// memory of this process and of the server, and a processor reads neighbours at less cost.
//
// Cohorts are spread over the second half of the interval, so that leases taken together do not
// beat all at once.
type cohort struct {
	heartbeat time.Duration
	first     timing.Instant // the heartbeat of its leases
	until     timing.Instant // when the last may join
	room      int            // for so many leases
	phase     float64        // of the next cohort, from 0 to 1
}

func newCohort(heartbeat time.Duration) cohort {
	// at random, so that processes do not beat together
	phase := float64(timing.Jitter(heartbeat)) / float64(heartbeat)
	return cohort{heartbeat: heartbeat, phase: phase}
}

// join is when a lease has its first heartbeat that was asked for at an instant.
func (c *cohort) join(sent timing.Instant) timing.Instant {
	if c.room == 0 || sent > c.until {
		half := c.heartbeat / 2
		c.first = sent.Add(half + time.Duration(c.phase*float64(half)))
		c.until = sent.Add(min(gapMost, c.heartbeat/64))
		c.room = batchMost
		// Steps of the golden ratio fill the half evenly, however many there are.
		_, c.phase = math.Modf(c.phase + math.Phi)
	}
	c.room--
	return c.first
}
