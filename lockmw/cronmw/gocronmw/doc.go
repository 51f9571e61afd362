// Package gocronmw runs the jobs of gocron on one node of many: all have the same
// schedulers, each tick is run once. It stands on package lockmw, and is for gocron
// what package cronmw is for other schedulers, whose text derives the bounds.
//
//	locker, err := gocronmw.NewLocker(keeper, gocronmw.Config{})
//	scheduler, err := gocron.NewScheduler()
//	job, err := locker.NewJob(scheduler, gocron.CronJob("*/5 * * * *", false), gocron.NewTask(sendReport), gocron.WithName("report"))
//
// # Locker or elector
//
// A [Locker] decides tick by tick: whichever node gets the job's lock runs it.
// A node that dies costs nothing but what it was running. It is the one to
// take where ticks follow the clock: crontabs, daily, weekly and monthly jobs.
//
// An [Elector] lets one node run everything, for as long as it lives. It is the one to take
// where each node would count from its own start: gocron.DurationJob and DurationRandomJob.
// Ticks that fall into a change of leader are lost, and are not caught up.
//
// # With a Locker
//
// The lock is held for as long as the job runs, and for HoldAtLeast, so that a node whose
// clock is behind finds it held: let clocks differ by less than half of HoldAtLeast, less what
// a node is late by. What [Locker.NewJob] knows the crontab of is not run if the node is late
// by more than a quarter of HoldAtLeast, so that a process that slept over a tick does not run
// it again. A tick that comes while an earlier one is still being run is skipped, on all
// nodes, as is one that comes while the store is down; those that no node was there for are
// not caught up. To wait for a run, rather than skip the tick, take a job of package cronmw.
//
// gocron gives a Locker no way to tell the job that its lock is lost, and drops the error.
// A job that must hear of it is a job of package cronmw, whose Fire is given to gocron:
//
//	job, err := node.Job("report", cronmw.Every(time.Minute), sendReport)
//	scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(func(ctx context.Context) { job.Fire(ctx) }))
//
// # With an Elector
//
// The leader's lock is kept by heartbeats. A successor leads in a moment when a leader closes,
// after renewer.Config.TTL when it has died, and first waits for Settle: by then its clock has
// passed every tick that the one before it has run, if clocks differ by less, and so no tick
// is run twice. Ticks in between are lost: those due from when the old leader ended until
// Settle after the new one was elected, by either's clock. A run that has begun goes on after
// its node has lost the lead. gocron asks for the lead before each run, and for no lock.
//
// # Names
//
// A Locker takes the lock gocron:NAME for a job, an Elector gocron-elector:NAME. No other kind of
// scheduled work takes these, so that a job and an elector may have the same name.
package gocronmw
