// Package asynqmw runs asynq task handlers under a lock that they never name: of all tasks, requests
// and calls with the same name, one runs at a time, on any server. It stands on package jobs.
//
//	locks, config := asynqmw.Configure(keeper, redis, asynq.Config{Concurrency: 20})
//	server := asynq.NewServer(redis, config)
//
//	mux.Handle("email:send", asynqmw.Wrap(locks, func(e Email) string { return userLock(e.User) }, sendEmail))
//
// redis is how asynq reaches its Redis: [RedisOpt] makes it of what opens the locks' store. [Wrap] takes
// a function of the decoded payload; [Middleware] puts a lock around handlers that exist already. By
// lockmw.Limit several tasks of a name run at once. [Task] returns the task itself. The options are those
// of package jobs: lockmw's, and jobs.RetryIn.
//
// # Outcomes
//
//	the lock is              what happens to the task
//	-----------------------  ------------------------------------------------------------------
//	free                     it runs, and its error is its own
//	held by another caller,  it stands in line in its queue, and runs when its turn has come; no
//	or a limit is full       attempt is used up, and no worker is kept; by lockmw.Skip it is
//	                         done, not run
//	the same, on its last    a copy takes its place in the queue: see [NoCopies]
//	attempt
//	asked for again, by      it is done: with lockmw.Replace one that runs, whose context ends,
//	newer tasks              and one that waits; with lockmw.Latest the latter; so is an older
//	                         one that comes later. [NewTask] has a task know how new it is
//	not to be had            it comes back, and no attempt is used up: in about five seconds if
//	                         the store is away, in one if the keeper is shut down
//	lost while it runs       its context ends with cause ErrLost, which is joined to its error;
//	                         it is done if it returned none, unless lockmw.Strict
//	of a limit below 0       it fails, and an attempt is used up: renewer.ErrConfig
//	of no usable name, or    it is archived, by asynq.SkipRetry: renewer.ErrName, [ErrPayload]
//	the payload is unusable
//
// A refused task's error is a [*NotRunError]. A handler that uses locks itself and returns their
// errors has failed as with any error: it has run.
//
// The lock is held until the handler returns, panics or exits, even if asynq has timed the task out
// meanwhile. So a task never overlaps its own retry.
//
// # What to watch out for
//
//   - asynq gives a task to another worker when it has not heard of the first for 30 s. Take a TTL
//     below that, such as renewer.DefaultTTL (15 s), and leave renewer.Config.CancelGrace at 0.
//   - Shut the server down first, the keeper afterwards, and close the locks last.
//
// # Schedules
//
// [RunScheduler] runs one of asynq's schedulers on one process of many; the ticks in a change of
// process are lost. [EnqueueOnce] enqueues exactly one task a tick, from a job of package cronmw.
//
// docs/asynq.md has more on groups, last attempts, times, task types and schedules.
package asynqmw
