// Package rivermw runs River's jobs under a lock that their workers never name:
// of all jobs, requests and calls with the same name, one runs at a time, on
// any client. It stands on package jobs, whose options it takes.
//
//	river.AddWorker(workers, rivermw.Wrap(keeper,
//		func(i Invoice) string { return lockmw.Key("tenant", i.Tenant) }, &InvoiceWorker{},
//		rivermw.InLine(pool))) // pool is a *pgxpool.Pool on the client's database
//
// # Outcomes
//
//	the lock is              what happens to the job
//	-----------------------  ------------------------------------------------------------------
//	free                     it runs, and its error is its own
//	held by another caller,  by [InLine] it is snoozed, and made available when its turn is near;
//	or a limit is full       without, it waits for a second in its worker, and is then snoozed for
//	                         a second or two; by lockmw.Skip it is completed, unrun
//	wanted by newer jobs     by lockmw.Replace or lockmw.Latest it is completed; cancelled, if it
//	                         ran and returned an error of its own
//	not to be had            it is snoozed: for about five seconds if the store is away, one if
//	                         the keeper is shut down
//	lost while it runs       its context ends, and renewer.ErrLost is joined to its error; it is
//	                         completed if it returned none, unless by lockmw.Strict
//	of a limit below 0       it fails, and an attempt is used up: renewer.ErrConfig
//	of no usable name        it is cancelled: renewer.ErrName
//
// A snooze uses up no attempt, and River's ErrorHandler does not hear of it.
// Middleware, which runs outside of the lock, gets an error that is
// river.JobSnoozeError, and must return it.
//
// # What to watch out for
//
//   - The lock is held until Work returns, even if River has given the job up or rescued it: the
//     rescued one stands in line.
//   - Which job is the newest goes by when it was inserted, to a millisecond, and then by its ID.
//     Jobs of two databases are in order as far as their clocks agree: where that is not enough,
//     give a version, by lockmw.Ranked.
//   - With jobs shorter than FetchCooldown, 100 ms by default, locks are idle until the next fetch:
//     set it to 10 ms or less. Without LISTEN, as by PollOnly, it is the next poll.
//   - River rescues the jobs of a client that was killed after RescueStuckJobsAfter, and counts an
//     attempt: give jobs more than one.
//   - Stop the client first, the keeper next, and close the pool last.
package rivermw
