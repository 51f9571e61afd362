// Package rivermw runs River's jobs under a lock that their workers never name: of all jobs with
// the same key, one runs at a time, on any client. It stands on package jobs.
//
//	river.AddWorker(workers, rivermw.Worker(keeper,
//		func(i Invoice) string { return i.Tenant }, &InvoiceWorker{}, rivermw.InLine(pool)))
//
// pool is a *pgxpool.Pool on the database that River's client has. The other options are those of
// package jobs: [jobs.AtMost], [jobs.Replace], [jobs.Skip] and so on.
//
// # Outcomes
//
//	the lock is              what happens to the job
//	-----------------------  ------------------------------------------------------------------
//	free                     it runs, and its error is its own
//	held by another caller,  by [InLine] it is snoozed, stands in line, and is made available when
//	or a limit is full       its turn is near; without it, it waits for a second in its worker if
//	                         few wait there, or as [jobs.Wait] says, and is then snoozed for a
//	                         second or two; by [jobs.Skip] it is completed, and did not run
//	asked for again, by      it is completed, and did not run, or its context has ended:
//	newer jobs               [jobs.Replace], [jobs.Latest]; cancelled, if its worker returned an
//	                         error of its own
//	not to be had, since     it is snoozed for about five seconds
//	the store is down
//	not to be had, since     it is snoozed for about a second, for another client
//	the keeper is shut down
//	not had yet when the     it is snoozed for a second or two; River's JobCancel cancels it
//	job's context ends
//	lost while it runs       its context ends with cause ErrLost, which is joined to its error; it
//	                         is completed if it returned none, unless [jobs.Strict]
//	of a limit below 0       it fails, and an attempt is used up: renewer.ErrConfig
//	of no usable name        it is cancelled: renewer.ErrName
//
// A snooze uses up no attempt, also on the last one, and River's ErrorHandler does not hear of it.
// Middleware and hooks get an error that is river.JobSnoozeError, and [renewer.ErrBusy],
// [renewer.ErrUnavailable] or [renewer.ErrShutdown]. They may wrap it, and must return it.
//
// # What River does, and what becomes of the lock
//
//   - River's JobCancel ends a job that runs by its context; one in line is cancelled at once, and
//     the next one is called.
//   - River rescues a job that runs for longer than RescueStuckJobsAfter. If its worker runs still,
//     it has the lock, and the rescued job stands in line. If its process died, the lock lapses
//     after the keeper's TTL.
//   - A unique job that stands in line counts as one that exists: another is not inserted. A
//     periodic job stands in line like others; [jobs.Skip] leaves out what would pile up.
//   - A job in line keeps its priority: when it is called, River fetches it before newer jobs of
//     that priority.
//   - A worker may complete its job in a transaction of its own, by river.JobCompleteTx:
//     fencetx.Pgx in the same transaction refuses a holder that has lost its lock.
//   - Worker middleware runs outside of the lock.
//
// # What to watch out for
//
//   - The lock's name is the job's kind and the key; [jobs.SharedKey] leaves the kind out.
//   - A job waits in its worker for about an eighth of its timeout at most, whatever the options:
//     its work begins with the rest, or does not begin.
//   - Which job is the newest, for [jobs.Replace] and [jobs.Latest], goes by its ID. Jobs of two
//     databases that share a lock need a key by lockmw.Ranked.
//   - A client pauses for FetchCooldown between fetches, 100 ms by default: with shorter jobs locks
//     are idle meanwhile. Set it to 10 ms or less.
//   - Without LISTEN, as by PollOnly, a job that is called comes with the next poll.
//   - River writes what became of jobs every 250 ms. So a client that is killed leaves jobs running
//     in the table that have ended, or were refused: up to a hundred in a burst. River rescues them
//     after RescueStuckJobsAfter, and counts an attempt: give jobs more than one.
//   - The lock is held until Work returns, even if River has given the job up.
//   - Stop the client first, the keeper afterwards, and close the pool last.
//
// docs/river.md has figures.
package rivermw
