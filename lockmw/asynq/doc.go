// Package asynqmw runs asynq task handlers under a lock that they never name: of all tasks
// with the same key, one runs at a time, on any server. It stands on package lockmw.
//
//	mux.Handle("email:send", asynqmw.Handle(keeper, func(e Email) string { return e.UserID }, sendEmail))
//	server := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{Concurrency: 20}))
//
// [Handle] takes a function of the decoded payload; [Middleware] puts a lock around handlers that
// are there already. [Configure] belongs to it: without it a refused task uses up attempts, until
// asynq archives it. Such a refusal is [ErrNotConfigured] and says so in its text; the keeper's
// observer is told with a handler's first task (renewer.Fault).
//
// # Outcomes
//
//	the lock is            what happens to the task
//	---------------------  ---------------------------------------------------------------------------------------
//	free                   it runs; its error is its own. The lock is held until it returns, panics or exits, even
//	                       when asynq has timed it out meanwhile, and so never overlaps its own retry
//	held by another        it goes back to its queue at once and comes back in about a second; no attempt is used up.
//	                       [Wait]: first it waits in line for a while. [Skip]: it is done, without having run. On its
//	                       last attempt it waits in its slot, and may be archived: see below, and [Requeue]
//	not to be had, since   the same, in about five seconds: the store is down. When the keeper is shut down it is a
//	nobody can be asked    second again, for another server
//	lost while it runs     its context ends with cause ErrLost; ErrLost is joined to its error, which is a failure as
//	                       any other, and on a last attempt the end. If it returned none it is done, unless [Strict]
//	of no usable name      it is archived ([ErrPayload], renewer.ErrName, asynq.SkipRetry); the store is not asked
//
// To have a loss use up no attempt, let your own IsFailure say so, and your RetryDelayFunc
// how soon the task comes back; Configure asks them for every error that is no refusal.
//
// A refused task's error is a [*NotRunError]. A handler that uses
// locks itself and returns their errors has failed as with any error:
// it has run. A panic of a key function is a panic of the handler.
//
// Refused tasks come back in no order, and asynq moves those that are due
// every Config.DelayedTaskCheckInterval, 5 s by default: for keys with
// many short tasks set that to a second, or let them [Wait] a little.
//
// # Types
//
// The lock is that of the task's type and the key. asynq's mux matches types by prefix: a handler
// for "email:send" gets tasks of type "email:sendx", too, and these are other locks. Where those
// who enqueue are not to be trusted, refuse other types in the handler, or give [SharedKey] and a
// key with a prefix of its own.
//
// # Last attempts
//
// asynq archives a task on its last attempt, and every task with MaxRetry(0), whatever error it
// returns: it counts attempts before it asks IsFailure. So the handler returns none while the task
// has time. The task waits in line, in its worker's slot, until a quarter of its time, at most 5 s,
// is left before its Timeout or Deadline; it waits for a store that is down as well. When that time
// is up it is archived, having not run.
//
// With [Requeue] it does not wait: a copy goes to the queue, with a new ID, and the original
// is dropped. It is archived only if asynq's Redis takes no copy in all that time. If asynq
// interrupts it between the two, at the end of a shutdown, both may run, in turn: tasks are
// delivered at least once, here as everywhere in asynq. A duplicate by the measure of
// asynq.Unique may be enqueued once the original is gone; the lock still keeps them apart.
//
// # Times
//
// asynq gives a task to another worker when it has not heard of the first for 30 s.
// With a TTL below that, as renewer.DefaultTTL is (15 s), the lock of a dead worker has
// lapsed by then. Leave renewer.Config.CancelGrace at 0: asynq cancels the context of a
// task that is timed out, and starts another while the first may still be running.
//
// Shut the server down first, the keeper afterwards: Server.Shutdown waits
// Config.ShutdownTimeout (8 s by default) for handlers and puts back what still
// runs, and Keeper.Shutdown then waits for those to let go of their locks.
//
//	server.Shutdown()
//	err := keeper.Shutdown(ctx) // with some seconds left
//
// # Schedulers
//
// Of asynq's schedulers only one may run, or each task is enqueued once by each.
// [RunScheduler] has several processes share one: a leader runs it, the others stand by.
//
//	err := asynqmw.RunScheduler(ctx, keeper, "reports", func() (*asynq.Scheduler, error) {
//		s := asynq.NewScheduler(redis, nil)
//		_, err := s.Register("*/5 * * * *", asynq.NewTask("report", nil))
//		return s, err
//	})
//
// No tick is enqueued twice, if clocks differ by less than [Settle]. Ticks in a change of
// leader are lost, and are not caught up: those that are due from when the old leader ended,
// or its lock lapsed, until Settle after the new one was elected. That is about a second when
// a leader returns, and renewer.Config.TTL more when it dies. "@every" counts from when each
// leader began. Where a tick must not be lost that way, enqueue from a job of package cronmw,
// by which each node has the schedule, and each tick is taken by one of those that live. The
// leader's lock is asynq-scheduler:NAME, which no other kind of scheduled work takes.
package asynqmw
