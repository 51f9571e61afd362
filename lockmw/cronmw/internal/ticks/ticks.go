// Package ticks takes each tick of scheduled work once. A tick is a job and the
// instant at which it is due, which all nodes compute alike from the schedule.
// Each job has one lock, and one record beside it, with the latest tick that
// was taken:
//
//	[Book.Look]   reads the record, and the time by the store's clock, which decides what is due
//	[Book.Take]   gets the lock, and writes into the record that the tick has begun
//	[Run.End]     writes that it has ended, and frees the lock
//
// Only ticks later than the one on record are taken, and only the latest holder
// of the lock can write the record (store.Recorder). So a tick is begun once,
// whatever the nodes' clocks show.
package ticks

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule says when work is due: Next is the first tick later than t, the
// zero time if there is none.
type Schedule interface{ Next(t time.Time) time.Time }

// Every has a tick at every multiple of a duration.
type Every time.Duration

// Next is the next multiple.
func (e Every) Next(t time.Time) time.Time {
	d := time.Duration(e)
	return t.Truncate(d).Add(d)
}

// Last is the schedule's last tick that is later than from and not later than
// now; the zero time if there is none. It looks back [MaxGrace] at first, then
// twice as far each time, so that a long time without nodes costs little, and
// all nodes ask their schedules from nearby: where clocks are put forward or
// back, some schedules answer otherwise from afar.
func Last(s Schedule, from, now time.Time) (last time.Time) {
	for back := MaxGrace; back > 0; back *= 2 { // until it overflows
		start := now.Add(-back)
		if start.Before(from) {
			start = from
		}
		for next := s.Next(start); next.After(start) && !next.After(now); next = s.Next(next) {
			start, last = next, next
		}
		if !last.IsZero() || !now.Add(-back).After(from) {
			break
		}
	}
	return last
}

// MostCounted is how many ticks [Count] counts at most.
const MostCounted = 10_000

// Count is how many ticks the schedule has later than from and before to.
func Count(s Schedule, from, to time.Time) (n int) {
	for next := s.Next(from); next.After(from) && next.Before(to) && n < MostCounted; n++ {
		from, next = next, s.Next(next)
	}
	return n
}

// Crontab is a crontab that robfig/cron has read. What has no zone of its own
// is read in loc, and "@every 30s" is [Every] rather than 30 s from when a node
// began.
func Crontab(s cron.Schedule, loc *time.Location) Schedule {
	if from, ok := s.(cron.ConstantDelaySchedule); ok {
		return Every(from.Delay)
	}
	return inZone{s, loc}
}

// inZone asks a schedule by times of a zone.
type inZone struct {
	cron.Schedule

	loc *time.Location
}

func (z inZone) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.loc)) }
