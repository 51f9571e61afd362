// Package asynqmw runs asynq task handlers under a lock that they never name: of all tasks with the
// same key, one runs at a time, on any server. It stands on package jobs.
//
//	mux.Handle("email:send",
//		asynqmw.Handle(keeper, func(e Email) string { return e.UserID }, sendEmail,
//			asynqmw.InLine(redis), asynqmw.Requeue(client)))
//	server := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{Concurrency: 20}))
//
// redis is how asynq reaches its Redis: [RedisOpt] makes it of what opens the locks' store.
//
// [Handle] takes a function of the decoded payload; [Middleware] puts a lock around handlers that
// exist already. By [AtMost] several tasks of a key run at once. [Task] returns the task itself,
// with its headers and ResultWriter.
//
// [Configure] belongs to all of them: without it a refused task uses up attempts, until asynq
// archives it. Such a refusal is renewer.ErrConfig, and the keeper's observer hears of it with a
// handler's first task (renewer.Fault).
//
// # Outcomes
//
//	the lock is              what happens to the task
//	-----------------------  ------------------------------------------------------------------
//	free                     it runs, and its error is its own
//	held by another caller,  by [InLine] it stands in line, and runs when its turn has come;
//	or a limit is full       without it, it waits for a second in its worker's slot if few wait
//	                         there, or as [Wait] says, and then comes back in a second or two; no
//	                         attempt is used up; by [Skip] it is done, not run
//	asked for again, by      it is done: with [Replace] one that runs, whose context ends, and
//	newer tasks              one that waits; with [Latest] the latter; so is an older one that
//	                         comes later. [NewTask] has a task know how new it is
//	not to be had            it comes back, and no attempt is used up: in about five seconds if
//	                         the store is down, in one if the keeper is shut down
//	lost while it runs       its context ends with cause ErrLost, which is joined to its error;
//	                         it is done if it returned none, unless [Strict]
//	of a limit below 0       it fails, and an attempt is used up: renewer.ErrConfig
//	of no usable name, or    it is archived, by asynq.SkipRetry: renewer.ErrName, [ErrPayload]
//	the payload is unusable
//
// A refused task's error is a [*NotRunError]. A handler that uses locks itself and returns their
// errors has failed as with any error: it has run. To have a loss use up no attempt, let your own
// IsFailure say so before you call Configure, and your RetryDelayFunc when the task comes back.
//
// The lock is held until the handler returns, panics or exits, even if asynq has timed the task out
// meanwhile. So a task never overlaps its own retry.
//
// # What to watch out for
//
//   - The lock's name is the task's type and the key; [SharedKey] leaves the type out.
//   - A task on its last attempt, and every task with MaxRetry(0), is archived by asynq whatever
//     error it returns. So one of them for each key and server waits in its worker's slot, for an
//     eighth of its time. The others are archived, and so is that one when its eighth is over. With
//     [Requeue] a copy goes to the queue instead.
//   - Without [InLine], tasks that went back come again in no order, and at most a few of a key
//     find a place in each second. So a key's lock is idle between short tasks.
//   - asynq gives a task to another worker when it has not heard of the first for 30 s. Take a TTL
//     below that, such as renewer.DefaultTTL (15 s), and leave renewer.Config.CancelGrace at 0.
//   - Shut the server down first, the keeper afterwards.
//
// # Schedules
//
// [RunScheduler] runs one of asynq's schedulers on one process of many; the ticks in a change of
// process are lost. [EnqueueOnce] enqueues exactly one task a tick, from a job of package cronmw.
//
// docs/asynq.md has more on groups, last attempts, times, task types and schedules.
package asynqmw
