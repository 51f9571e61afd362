// Package asynqmw runs asynq task handlers under a lock that they never name:
// of all tasks, requests and calls with the same name, one runs at a time, on
// any server. It stands on package jobs, whose options it takes.
//
//	redis, err := asynqmw.RedisOpt(deployment)
//	locks, config := asynqmw.Configure(keeper, redis, asynq.Config{Concurrency: 20})
//	server := asynq.NewServer(redis, config)
//
//	mux.Handle("email:send", asynqmw.Wrap(locks,
//		func(e Email) string { return lockmw.Key("user", e.UserID) }, sendEmail))
//
// A task whose lock another caller has stands in line in its queue, and is
// called when its turn is near. It keeps no worker and uses up no attempt. On
// its last one, when asynq archives it whatever its handler returns, a copy
// goes back in its place: the same but for its ID and its Unique lock. The
// header "Lockbeat-Origin" has the first one's ID.
//
// # Outcomes
//
//	the lock is              what happens to the task
//	-----------------------  ------------------------------------------------------------------
//	free                     it runs, and its error is its own
//	held by another caller,  it stands in line; by lockmw.Skip it is done, not run
//	or a limit is full
//	wanted by newer tasks    by lockmw.Replace or lockmw.Latest it is done (see [NewTask]); if it
//	                         ran and returned an error, Config.ErrorHandler is told
//	not to be had            it comes back, uncounted: in about five seconds if the store is
//	                         away, in one if the keeper is shut down
//	lost while it runs       its context ends, and renewer.ErrLost is joined to its error; it is
//	                         done if it returned none, unless by lockmw.Strict
//	of a limit below 0       it fails, and an attempt is used up: renewer.ErrConfig
//	of no usable name, or    it is archived, by asynq.SkipRetry: renewer.ErrName, [ErrPayload]
//	the payload is unusable
//
// A refused task's error is a [*NotRunError].
//
// # What to watch out for
//
//   - The lock is held until the handler returns, even if asynq has timed the task out. So a task
//     never overlaps its own retry.
//   - asynq gives a task to another worker when it has not heard of the first for 30 s: take a TTL
//     below that, and leave renewer.Config.CancelGrace at 0.
//   - Shut the server down first: before the keeper, and before you close the [Locks].
package asynqmw
