// Package gocronmw runs the jobs of gocron on one node of many: all have the same schedulers, each
// tick is run once. It stands on package lockmw, and does for gocron what package cronmw does for
// other schedulers.
//
//	locker, err := gocronmw.NewLocker(keeper, gocronmw.Config{})
//	scheduler, err := gocron.NewScheduler()
//	job, err := locker.NewJob(scheduler, gocron.CronJob("*/5 * * * *", false),
//		gocron.NewTask(sendReport), gocron.WithName("report"))
//
// # Locker or elector
//
// A [Locker] decides tick by tick: the node that gets the job's lock runs it. A node that dies
// costs nothing but what it was running. Take it where ticks follow the clock: crontabs, daily,
// weekly and monthly jobs.
//
// An [Elector] lets one node run everything, for as long as it lives. Take it where each node would
// draw its own ticks: gocron.DurationRandomJob. Ticks that fall into a change of leader are lost,
// and are not caught up.
//
// # With a Locker
//
// A tick is a job and the instant at which it is due, which all nodes compute
// alike. It is on record once a node has begun it, so that each tick is begun
// once, however much the nodes' clocks differ: the store's clock decides what is
// due. A node whose clock is ahead waits for the tick; one whose clock is behind
// by more than Config.Grace is too late for it. docs/cron.md has the rest.
//
// A tick is skipped on all nodes if an earlier one is still being run. While the store is down it
// is asked again until the grace is over. A tick for which no node was there is not caught up. To
// wait for a run, to catch up, or to see what has become of a tick, take a job of package cronmw.
// RunNow of the job that [Locker.NewJob] returns is no tick: it runs at once, or is refused if the
// job is being run.
//
// gocron gives a Locker no way to tell the job that its lock is lost, and drops the error. A job
// that must hear of it is a job of package cronmw, whose Fire is given to gocron:
//
//	job, err := node.Job("report", cronmw.Every(time.Minute), sendReport)
//	scheduler.NewJob(gocron.CronJob("* * * * *", false),
//		gocron.NewTask(func(ctx context.Context) { job.Fire(ctx) }))
//
// # With an Elector
//
// Heartbeats keep the leader's lock. A successor leads in a moment when a leader closes, after
// renewer.Config.TTL when it has died, and first waits for [Settle]: by then its clock has passed
// every tick that the one before it has run, if clocks differ by less, and so no tick is run twice.
// Ticks in between are lost: those due from when the old leader ended until Settle after the new
// one was elected, by the clock of either. A run that has begun goes on after its node has lost the
// lead. gocron asks for the lead before each run, and for no lock.
//
// # Names
//
// A Locker takes the lock gocron:NAME for a job, an Elector gocron-elector:NAME. No other kind of
// scheduled work takes these, so that a job and an elector may have the same name.
package gocronmw
