// Package cronmw runs scheduled work on one node of many: all have the
// same schedule, each tick is run once. It stands on package lockmw.
//
//	node, err := cronmw.New(ctx, keeper, cronmw.Config{OnTick: cronmw.LogTicks(logger)})
//	id, err := node.AddFunc(c, "*/5 * * * *", "report", sendReport)        // c: a cron.Cron of robfig/cron
//	job, err := node.Job("report", cronmw.Every(time.Minute), sendReport)  // for any scheduler: have it call job.Run
//
// Package gocronmw, below this one, is for gocron; package asynqmw runs asynq's own schedulers.
//
// # One run a tick
//
// When a tick comes, every node asks for the job's lock, and whoever gets it
// runs the job. A job may take a millisecond, and nodes' clocks differ by more:
// so the lock is held for a while after it was taken, HoldAtLeast, however short
// the run. A node whose clock is behind finds it held, and skips the tick.
//
// Let a tick be due at T, let clocks differ by less than S between any two nodes,
// let H be HoldAtLeast and I the shortest time between two ticks. A node notices
// the tick at most H/4 late by its own clock, or not at all ([OutcomeLate]), and then has
// the lock within H/4, or not at all ([OutcomeNotRun]). So, by the clock that is furthest
// ahead, the first node takes the lock at T or later, it is held at T+H still, and
// the last one asks before T+S+H/2. That is too late for a second run if
//
//	S < H/2
//
// By the same clock the lock has lapsed before T+S+H/2+H, and the first
// node asks for the next tick's at T+I. Every node can take it if
//
//	S < I - 3H/2
//
// Both hold with clocks that differ by less than I/4, if H is I/2; in short, the difference of
// clocks < HoldAtLeast < interval less that difference, each with room for a node that is late. The
// default is [DefaultHoldAtLeast], or I/2 if that is less. A HoldAtLeast of I or more is refused.
// Between I/2 and I a tick is still run once at most, and a node whose clock is ahead may skip one.
//
// What the nodes have in common is the tick, so a schedule must follow the
// clock: a crontab, or [Every]. "Every 30 s since the start" has other ticks
// on each node; it is refused, and robfig/cron's "@every" is read as [Every].
//
// # What becomes of a tick
//
//	the job                                what happens
//	-------------------------------------  -----------------------------------------------------------------------------
//	is due, and nobody has the tick        it runs ([OutcomeRan]); its error is told to Config.OnTick, and is nobody's else
//	is another node's                      [OutcomeSkipped]
//	still runs for an earlier tick,        [OutcomeSkipped]; with [Wait] the node that takes the tick waits for that run to end,
//	on any node                            and then runs it, late
//	loses its lock while it runs           its context ends with cause renewer.ErrLost, before another node can run it
//	was on a node that died                nothing runs the rest of that tick; the lock lapses after renewer.Config.TTL
//	has panicked                           the lock is freed, and the panic goes to the scheduler
//	is due while the store is down         [OutcomeNotRun] on every node: it may have been run, or not, and is not tried again
//	is due while all nodes are down        nothing: ticks that were missed are not caught up
//	is due on a node that was paused       [OutcomeLate] there, when it wakes up; another node has run it
//
// So each tick is run at most once, and once unless somebody dies in the middle, or the
// store is down. Nobody is told of a tick that was missed because no node was up: what
// must not be missed belongs in a queue, or asks on each run what was left undone.
//
// For the next tick to be run elsewhere when a node is killed in the middle of one, the TTL of
// its lock must be less than the interval, less what clocks differ by. With a longer TTL ticks
// are skipped until it has lapsed. renewer.DefaultTTL, 15 s, suits ticks a minute apart.
//
// All nodes must give a job the same name, schedule and options: a node with another schedule ticks
// when others don't.
//
// Names are those of locks, so that programs which share a Redis need different ones, or prefixes.
// The kinds of scheduled work never share one, whatever they are called:
//
//	a job called report                        cron:report
//	the runs of one with [Wait]                cron:report:run
//	gocronmw's Locker, for a job report        gocron:report
//	gocronmw's Elector report                  gocron-elector:report
//	asynqmw.RunScheduler report                asynq-scheduler:report
//
// # Stopping
//
// Stop the scheduler first, so that no tick begins, then wait for
// what runs, and shut the keeper down afterwards:
//
//	<-c.Stop().Done()
//	err := keeper.Shutdown(ctx) // with some seconds left
//
// To have runs cut short, end the context given to [New].
package cronmw
