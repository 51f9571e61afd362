package ticks

import (
	"time"

	"github.com/robfig/cron/v3"
)

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
