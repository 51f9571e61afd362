// Package cronmw runs scheduled work on one node of many: all have the same schedule, each tick is
// run once. It stands on package lockmw.
//
//	node, err := cronmw.New(ctx, keeper)
//
//	id, err := node.AddFunc(c, "*/5 * * * *", "report", sendReport) // c: robfig/cron's cron.Cron
//
//	// For any scheduler: have it call job.Run.
//	job, err := node.Job("report", cronmw.Every(time.Minute), sendReport)
//
// Package gocronmw, below this one, is for gocron; package asynqmw runs asynq's own schedulers.
//
// # One run a tick
//
// A tick is a job and the instant at which it is due. All nodes compute that alike, so a schedule
// must follow the clock: a crontab, or [Every]. "Every 30 s since the start" has other ticks on
// each node. It is refused, and robfig/cron's "@every" is read as [Every].
//
// The store's clock decides what is due. The node that gets the job's lock writes into the job's
// record that the tick has begun, and runs it. Only ticks later than the one on record are run. So
// a tick is begun once, however much the nodes' clocks differ: a node that comes early waits, and
// one that comes late runs the tick if no other has, within the job's [Grace].
//
// # Outcomes
//
// The Observer of the keeper hears of each tick by a renewer.Run, which names the outcome: metrics
// show it, and renewer.Config.Log what has failed.
//
//	the job                           what becomes of the tick
//	--------------------------------  ---------------------------------------------------------
//	is due, and no node has the tick  it runs (OutcomeRan, with its error)
//	is another node's                 OutcomeSkipped
//	still runs for an earlier tick,   OutcomeSkipped
//	  on any node
//	loses its lock while it runs      its context ends with cause renewer.ErrLost, before
//	                                    another node can run the job
//	has panicked                      the lock is freed, the tick is told of as failed or cut, and
//	                                    the panic goes to the scheduler
//	was cut: it panicked, or          the rest of that tick is not run; by [TakeOver] another
//	  returned an error when its        node runs it again at once (OutcomeCut)
//	  context had ended
//	was on a node that died           the same, after renewer.Config.TTL
//	is due while the store is down    it is asked again until the grace is over: OutcomeNotRun;
//	                                    by [RunIfMissed] it is run when the store is back
//	is due while all nodes are down   Missed of the next one counts it; by [RunIfMissed]
//	                                    the last such tick is run when a node starts
//	was due for longer than its       OutcomeMissed, if no node has taken it
//	  grace when this node came
//
// [Current] names the tick that is being run. [Job.RunNow] runs a job by hand.
//
// # What to watch out for
//
//   - All nodes must give a job the same name, schedule and options. When a schedule is changed
//     under the same name, only ticks later than the last one taken are run, and none before the
//     first one by the new schedule counts as missed.
//   - Programs that share a Redis need different names, or prefixes ([renewer.OutcomeConflict]).
//   - The keeper's store must keep records, as redisstore and memory do and a quorum does not. A
//     server that loses the record within the grace of a tick lets the tick run again: use
//     appendfsync always where that matters.
//   - For the next tick to be run elsewhere when a node dies in the middle of one, the TTL must be
//     less than the interval. renewer.DefaultTTL, 15 s, suits ticks a minute apart.
//   - Give [New] a context that outlives the signal to stop: runs are cut when it ends. Stop the
//     scheduler first, then wait for what runs, end that context, and shut the keeper down last.
//
// A job has the lock cron:NAME. docs/cron.md has the reasons. The example of this package runs one
// tick on two nodes.
package cronmw
