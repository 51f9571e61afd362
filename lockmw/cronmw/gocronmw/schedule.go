package gocronmw

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// crontabs reads those of gocron, which have seconds or not.
var crontabs = cron.NewParser(
	cron.SecondOptional | cron.Minute | cron.Hour |
		cron.Dom | cron.Month | cron.Dow | cron.Descriptor,
)

// shortest is the shortest time between two ticks, 0 if there is only one, or gocron does not know.
func shortest(schedule gocron.JobSchedule) (time.Duration, error) {
	switch s := schedule.(type) {
	case gocron.CronJobSchedule:
		parsed, err := crontabs.Parse(s.Crontab)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", renewer.ErrConfig, err)
		}
		return ticks.Shortest(parsed, time.Now())
	case gocron.DurationJobSchedule:
		return s.Duration, nil
	case gocron.DurationRandomJobSchedule:
		return 0, fmt.Errorf("%w: each node would draw ticks of its own between %v and %v: run "+
			"the scheduler with an Elector",
			renewer.ErrConfig, s.Min, s.Max)
	case gocron.DailyJobSchedule:
		return apart(s.AtTimes), nil
	case gocron.WeeklyJobSchedule:
		return apart(s.AtTimes), nil
	case gocron.MonthlyJobSchedule:
		return apart(s.AtTimes), nil
	case gocron.OneTimeJobSchedule:
		return closest(s.StartAt), nil
	default:
		return 0, nil
	}
}

// apart is the shortest time between times of the day, on days that may follow each other.
func apart(times []time.Time) time.Duration {
	const day = 24 * time.Hour
	first := slices.MinFunc(times, time.Time.Compare)
	return closest(append(slices.Clone(times), first.Add(day)))
}

// closest is the shortest time between any two, 0 if there is only one.
func closest(times []time.Time) (gap time.Duration) {
	sorted := slices.SortedFunc(slices.Values(times), time.Time.Compare)
	for i := range sorted[1:] {
		if d := sorted[i+1].Sub(sorted[i]); gap == 0 || d < gap {
			gap = d
		}
	}
	return gap
}
