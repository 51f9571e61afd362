// Package cronmw runs scheduled work on one node of many: all have the same
// schedule, each tick is run once, by the store's clock.
//
//	node, err := cronmw.New(ctx, keeper)
//
//	id, err := node.AddFunc(c, "*/5 * * * *", "report", sendReport) // c: robfig/cron's cron.Cron
//
//	// For any scheduler: have it call job.Run.
//	job, err := node.Job("report", cronmw.Every(time.Minute), sendReport)
//
// Package gocronmw is for gocron; package asynqmw runs asynq's own schedulers.
//
// A tick is a job and the instant at which it is due. All nodes compute that
// alike, so a schedule must follow the clock: a crontab, or [Every]. The node
// that gets the job's lock, cron:NAME, writes into the job's record that the
// tick has begun, and runs it. Only later ticks than that are run: so a tick is
// begun once, however much the nodes' clocks differ.
//
// # Outcomes
//
// The keeper's Observer hears of each tick on this node, by a renewer.Run, and
// renewer.Config.Log of what has failed:
//
//	the job                            what becomes of the tick
//	---------------------------------  ------------------------------------------------------
//	is due, and no node has the tick   it runs: OutcomeRan, with its error
//	is another node's, or still runs   OutcomeSkipped
//	loses its lock while it runs       its context ends before another node can run the job
//	was cut, or its node has died      OutcomeCut: the rest is not run, but by [TakeOver]
//	is due while the store is away     OutcomeNotRun after the [Grace], but by [RunIfMissed]
//	is due while all nodes are down    Missed of the next one counts it, but by [RunIfMissed]
//	was due for longer than its grace  OutcomeMissed, if no node has taken it
//
// A panic goes to the scheduler when the lock is free.
//
// # What to watch out for
//
//   - All nodes must give a job the same name, schedule and options. When a schedule is changed
//     under the same name, only ticks later than the last one taken are run.
//   - Programs that share a Redis need different names, or prefixes ([renewer.OutcomeConflict]).
//   - The keeper's store must keep records, as redisstore and memory do and a quorum does not. If
//     the record is lost within the grace of a tick, that may run again.
//   - A TTL above the interval has ticks skipped when a node dies.
//   - Give [New] a context that outlives the signal to stop. Stop the scheduler first, wait
//     for what runs, end that context, and shut the keeper down last.
package cronmw
