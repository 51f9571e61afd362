// Package gocronmw runs the jobs of gocron on one node of many: all have the
// same schedulers, each tick is run once. A job is one of package cronmw, whose
// text says what becomes of a tick.
//
//	node, err := cronmw.New(ctx, keeper)
//	scheduler, err := gocron.NewScheduler()
//	job, err := gocronmw.AddFunc(node, scheduler, "*/5 * * * *", "report", sendReport)
//
// A job that needs more of gocron (tags, limits, times of its own) is a job of
// cronmw that you give to gocron yourself. The two must have the same ticks:
//
//	job, err := node.Job("report", cronmw.Every(time.Minute), sendReport)
//	scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(
//		func(ctx context.Context) { job.Fire(ctx) }), gocron.WithTags("reports"))
//
// For jobs whose ticks each node would draw by itself, as
// gocron.DurationRandomJob, run the whole scheduler on one node, by
// lockmw.Lead.
package gocronmw

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// AddFunc adds a job to s that runs fn once a tick, on one node of many: see
// [cronmw.Node.Job] for what is refused. The crontab may begin with seconds,
// and is read in the scheduler's location, which must be the same on all nodes.
// "@every 30s" is [cronmw.Every].
//
// fn's context ends when the lock is lost, when gocron ends its jobs (Shutdown,
// RemoveJob), and with that of [cronmw.New]. RunNow of the job that AddFunc
// returns is [cronmw.Job.RunNow]: it returns when fn has.
func AddFunc(
	n *cronmw.Node, s gocron.Scheduler, crontab, name string,
	fn func(context.Context) error, opts ...cronmw.Option,
) (gocron.Job, error) {
	var job *cronmw.Job
	added, err := s.NewJob(gocron.CronJob(crontab, true),
		gocron.NewTask(func(ctx context.Context) { job.Fire(ctx) }),
		gocron.WithName(name),
		gocron.WithCronImplementation(&schedule{add: func(s ticks.Schedule) (err error) {
			job, err = n.Job(name, s, fn, opts...)
			return err
		}}))
	if err != nil {
		return nil, err
	}
	return runnable{added, job}, nil
}

// crontabs reads those of gocron, which have seconds or not.
var crontabs = cron.NewParser(
	cron.SecondOptional | cron.Minute | cron.Hour |
		cron.Dom | cron.Month | cron.Dow | cron.Descriptor,
)

// schedule is that of one job. gocron tells it its crontab and zone.
type schedule struct {
	ticks.Schedule

	add func(ticks.Schedule) error
}

// IsValid is called by gocron before it adds the job.
func (s *schedule) IsValid(crontab string, loc *time.Location, _ time.Time) error {
	parsed, err := crontabs.Parse(crontab)
	if err != nil {
		return fmt.Errorf("%w: %w", renewer.ErrConfig, err)
	}
	s.Schedule = ticks.Crontab(parsed, loc)
	return s.add(s.Schedule)
}

// Next is in UTC, in which no time comes twice: gocron takes the second of two
// that look alike for a repeated one, and passes over it.
func (s *schedule) Next(t time.Time) time.Time { return s.Schedule.Next(t).UTC() }

// runnable is a job whose RunNow takes no tick.
type runnable struct {
	gocron.Job

	job *cronmw.Job
}

func (r runnable) RunNow() error { return r.job.RunNow(context.Background()) }
