package cronmw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/renewer"
)

var _ cron.Job = (*Job)(nil)

// AddFunc is c.AddFunc for a function that runs once a tick, on one node of many:
// see [Node.Job] for what is refused. The spec is read by c's parser, in c's
// location, which must be the same on all nodes. "@every 30s" ticks at multiples
// of 30 s by the clock, as [Every] does, rather than 30 s after each node's start.
func (n *Node) AddFunc(
	c *cron.Cron, spec, name string, fn func(context.Context) error, opts ...Option,
) (cron.EntryID, error) {
	if c == nil {
		return 0, errNoCron
	}
	// c's parser can only be reached by adding something.
	probe, err := c.AddFunc(spec, func() {})
	if err != nil {
		return 0, fmt.Errorf("%w: job %q: %w", renewer.ErrConfig, name, err)
	}
	schedule := c.Entry(probe).Schedule
	c.Remove(probe)
	return n.Schedule(c, schedule, name, fn, opts...)
}

// Schedule is [Node.AddFunc] with a schedule that has been parsed, or is an [Every].
func (n *Node) Schedule(
	c *cron.Cron, s cron.Schedule, name string, fn func(context.Context) error, opts ...Option,
) (cron.EntryID, error) {
	if c == nil {
		return 0, errNoCron
	}
	if from, ok := s.(cron.ConstantDelaySchedule); ok {
		s = Every(from.Delay)
	}
	if s != nil {
		s = inZone{s, c.Location()}
	}
	j, err := n.Job(name, s, fn, opts...)
	if err != nil {
		return 0, err
	}
	j.corrected = true
	return c.Schedule(&byStore{Job: j}, j), nil
}

var errNoCron = fmt.Errorf("%w: there is no cron: make one by cron.New", renewer.ErrConfig)

// inZone asks a schedule by times of a zone: what has none of its own
// is read in that of the time given.
type inZone struct {
	cron.Schedule

	loc *time.Location
}

func (z inZone) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.loc)) }

// byStore is a job's schedule for a cron whose clock may be wrong: as far as it is known here, by
// the store's. The first tick may be by the cron's own.
type byStore struct {
	*Job

	mu   sync.Mutex
	tick time.Time // the one that was named last, by the store's clock
	call time.Time // and by the cron's
}

// Next names each tick once, though the clocks' difference is not quite the same each time. If the
// store's clock has stepped back by more, it goes back too: those ticks have no other call, and one
// that was run is not run again. [Job.nextCall] counts on that.
func (s *byStore) Next(t time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	ahead := s.book.Ahead()
	from := t.Add(ahead)
	if !t.Before(s.call) && from.Before(s.tick) && !from.Add(s.slack()).Before(s.tick) {
		from = s.tick
	}
	s.tick = s.schedule.Next(from)
	if s.tick.IsZero() {
		return s.tick
	}
	s.call = s.tick.Add(-ahead)
	return s.call
}
