// Package once runs work that must succeed once, whoever does it: of all processes that
// call [Do] with the same name, one runs the function, and all get its result. If that
// one fails, dies or loses the lock, another takes over. It stands on package lockmw.
//
//	invoice, err := once.Do(ctx, keeper, lockmw.Key("invoice", order.ID), func(ctx context.Context) (Invoice, error) {
//		return bill(ctx, order)
//	}, once.Keep(time.Hour))
//
// # What it is made of
//
// A lock, and a record beside it that outlives it for [Keep]. The lock says who may try; the record
// says how often it was tried, and how it ended. An attempt is on record before it begins, so that
// one that kills its process counts. The authority on both is the store, which must be a
// renewer.Recorder, as redisstore and memory are and a quorum is not: only the latest holder of the
// lock can write the record, by its fencing token. An attempt that has been overtaken can't say
// "done" any more, however late it tries, and its result is dropped in favour of its successor's.
//
//	            a caller has the lock
//	(nothing) ─────────────────────────▶ begun, attempt 1
//	                                       │
//	    next caller with the lock,         ├── succeeds ──────────────────▶ done: everybody gets the result
//	    or the same after a pause          ├── Permanent error ───────────▶ given up: everybody gets ErrGivenUp
//	   ┌───────────────────────────────────┤
//	   │                                   └── fails, dies, loses the lock, and was the last
//	   └▶ begun, attempt n+1                      ─────────────────────────▶ exhausted: everybody gets ErrAttemptsExhausted
//
//	each of them ── Keep passes ──▶ (nothing): the next call is the first again
//
// Callers look at the record before they stand in line for the lock, so that
// work that is decided costs one question. Those who wait are woken by the
// release of the lock, whatever the reason, and take over or get the answer.
//
// # Outcomes
//
//	nil                      done, now or before; the result is that of the attempt that is on record
//	ErrAttemptsExhausted     MaxAttempts have come to nothing; the error has that of this call's own attempt, if it made one
//	ErrGivenUp               an attempt has returned a [Permanent] error
//	ErrResult                done, but the result was too large or could not be encoded: nobody does it again, and nobody else has it
//	ErrNotRecorded           done by this call, which could not be recorded for a whole renewer.Config.TTL: others may do it again
//	ErrRecord, ErrInput      the record, or its result, is not for this program, or is about something else; nothing has been changed
//	the function's error     with [NoRetry], or if the caller's context has ended
//	renewer.ErrHeld, …       the errors of lockmw.Do, when this call may not wait any longer: see [Wait]. An error of its own attempt,
//	                         if it made one, is joined
//
// # Failures and their consequences
//
//   - The function fails: its caller pauses for [RetryIn], and who waits takes
//     over at once. No error leaves the process, since it may carry personal data;
//     others learn how many attempts there were and which process made the last.
//   - The process dies: the lock lapses within renewer.Config.TTL, and who waits takes over.
//   - The lock is lost: the function's context ends, with cause ErrLost. If the function
//     succeeds all the same, its result counts, unless somebody has taken over meanwhile.
//   - The function panics or calls runtime.Goexit: the same passes through, and the attempt counts.
//   - The store does not answer when the function has returned: it is asked again,
//     for as long as the lock could not have been anybody else's: renewer.Config.TTL.
//   - The store loses its data: the work is as new, and is done again.
//
// # What can't be promised
//
// That the function is never run again after it has had its effect. Between the effect
// and the record a process may die, and then the next attempt can't know. Let the effect
// be one that can be repeated, or give lockmw.Fence(ctx) to whatever it is written to.
// What is promised is that one result is recorded, and that all who ask get that one.
//
// # Names
//
// The name is the lock's, so that lockmw.Do with the same name keeps out of its way. Put into it
// what makes the work this and no other: for the report of a day, that day. Where the same name
// comes again, as with a schedule, let Keep be shorter than the time in between. Each name takes
// space in the store for Keep: where clients choose names, [Uncounted] has failures take none.
package once
