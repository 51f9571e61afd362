// Package cronmw runs scheduled work on one node of many: all have the same schedule, each tick is
// run once. It stands on package lockmw.
//
//	node, err := cronmw.New(ctx, keeper, cronmw.Config{OnTick: cronmw.LogTicks(logger)})
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
// When a tick comes, every node asks for the job's lock, and the node that gets it runs the job. A
// job may take a millisecond, and nodes' clocks differ by more. So the lock is held for a while
// after it was taken, HoldAtLeast, however short the run. A node whose clock is behind finds it
// held, and skips the tick. In short:
//
//	the difference of clocks < HoldAtLeast < the interval less that difference
//
// each with room for a node that is late. With the default, [DefaultHoldAtLeast] or half of the
// interval if that is less, clocks may differ by 2.5 s, or a quarter of the interval.
//
// The nodes have the tick in common, so a schedule must follow the clock: a crontab, or [Every].
// "Every 30 s since the start" has other ticks on each node. It is refused, and robfig/cron's
// "@every" is read as [Every].
//
// # Outcomes
//
//	the job                           what becomes of the tick
//	--------------------------------  ---------------------------------------------------------
//	is due, and no node has the tick  it runs ([OutcomeRan]); Config.OnTick hears its error
//	is another node's                 [OutcomeSkipped]
//	still runs for an earlier tick,   [OutcomeSkipped]; by [Wait] the node that takes the tick
//	  on any node                       waits for that run to end, and then runs it, late
//	loses its lock while it runs      its context ends with cause renewer.ErrLost, before
//	                                    another node can run the job
//	was on a node that died           the rest of that tick is not run; the lock lapses after
//	                                    renewer.Config.TTL
//	has panicked                      the lock is freed, and the panic goes to the scheduler
//	is due while the store is down    [OutcomeNotRun] on every node; it is not tried again
//	is due while all nodes are down   nothing: missed ticks are not caught up
//	is due on a paused node           [OutcomeLate] when that wakes up; another node has run it
//
// So each tick is run at most once, and once unless a node dies in the middle or the store is down.
// What must not be missed belongs in a queue, or asks on each run what was left undone.
//
// # What to watch out for
//
//   - All nodes must give a job the same name, schedule and options.
//   - Programs that share a Redis need different names, or prefixes.
//   - For the next tick to be run elsewhere when a node dies in the middle of one, the TTL must be
//     less than the interval. renewer.DefaultTTL, 15 s, suits ticks a minute apart.
//   - Stop the scheduler first, then wait for what runs, and shut the keeper down afterwards. To
//     have runs cut short, end the context given to [New].
//
// docs/cron.md derives the bounds, and lists the names of all locks of scheduled work.
package cronmw
