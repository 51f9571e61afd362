// Package once runs work that must succeed once, in whichever process: of all processes that call
// [Do] with the same name, one runs the function, and all get its result. If that one fails, dies
// or loses the lock, another takes over. It stands on package lockmw.
//
//	name := lockmw.Key("invoice", order.ID)
//	invoice, err := once.Do(ctx, keeper, name, func(ctx context.Context) (Invoice, error) {
//		return bill(ctx, order)
//	}, once.Keep(time.Hour))
//
// # What it is made of
//
// A lock, and a record beside it that outlives it for [Keep]. The lock says who may try; the
// record says how often it was tried, and how it ended. An attempt is on record before it begins,
// so that one that kills its process counts. The authority on both is the store, which must be a
// store.Recorder, as redisstore and memory are and a quorum is not; or [RecordIn] gives the
// record an authority of its own, such as the user's database (package sqlrecord). Only the latest
// holder of the lock can write the record, by its fencing token. An attempt that another has
// overtaken can't say "done" any more, and its result is dropped in favour of its successor's.
//
//	            a caller has the lock
//	(nothing) ────────────────────────▶ begun, attempt 1
//	                                      │
//	    the next caller with the lock,    ├── succeeds ─────────▶ done: all get the result
//	    after a pause if this one failed  ├── Permanent error ──▶ given up: all get ErrGivenUp
//	   ┌──────────────────────────────────┤
//	   │                                  └── fails, dies or loses the lock, and was the last
//	   └▶ begun, attempt n+1                     ──▶ exhausted: all get ErrAttemptsExhausted
//
//	each of them ── Keep passes, or [Forget] ──▶ (nothing): the next call is the first again
//
// A caller reads the record before it asks for the lock: work that is decided costs one question,
// and no lock. Under the lock it puts its attempt on record, if the record is still as it was read;
// otherwise it goes by what it finds there. So new work costs five questions: the read, the
// acquire, the attempt, the result, and the release (eight in a database, by package sqlrecord).
// Those who wait are woken by the release of the lock, and take over or get the answer. Work that
// needs another lock too takes it by [Under], when its attempt is on record.
//
// # Outcomes
//
//	nil                      done, now or before; the result is that of the recorded attempt
//	ErrAttemptsExhausted     MaxAttempts attempts have failed; with the error of this call's own
//	ErrGivenUp               an attempt has returned a [Permanent] error
//	ErrResult                done, but the result could not be stored; only this call may have it
//	ErrNotRecorded           done by this call, but not recorded: others may do it again
//	ErrNotYet                an attempt has failed, and the next is later than [Wait] allows
//	ErrConflict              a database has undone the transaction each time; not an attempt
//	ErrRecord, ErrInput      the record is not this program's, or is about something else
//	the function's error     with [NoRetry], or if the caller's context has ended
//	renewer.ErrBusy, …       the errors of lockmw.Do, if this call may wait no longer: [Wait];
//	                         the error of its own attempt, if it made one, is joined
//
// # Failures and their consequences
//
//   - The function fails: after a pause, [RetryIn], its caller or one that waits tries again.
//     Others learn how many attempts there were and which process made the last, and the error only
//     by [TellErrors], since it may carry personal data.
//   - The process dies: the lock lapses within renewer.Config.TTL; a caller that waits takes over.
//   - The lock is lost: the function's context ends, with cause ErrLost. If the function succeeds
//     all the same, its result counts, unless another call has taken over meanwhile.
//   - The lock of [Under] is not to be had: the attempt does not count.
//   - The caller leaves before the function has begun: the attempt does not count. A question about
//     the record that is under way is waited for, for one renewer.Config.RequestTimeout at most,
//     also beyond [Wait].
//   - The store puts the attempt on record, and does not answer for as long as the caller waits: it
//     counts, though the function has not run.
//   - The function panics or calls runtime.Goexit: that passes through, and the attempt counts.
//   - The store does not answer when the function has returned: it is asked again, for as long as
//     no other caller could have had the lock: renewer.Config.TTL.
//   - The store loses its data: the work is as new, and is done again.
//
// # What can't be promised
//
// That the function is never run again after it has had its effect. A process may die between the
// effect and the record, and then the next attempt can't know. Let the effect be one that can be
// repeated, or give lockmw.Fence(ctx) to the resource that it is written to. What is promised is
// that one result is recorded, and that all callers get that one.
//
// With a [Transactional] recorder it is promised for what the function writes by the recorder's
// transaction: that is committed together with the record, by one attempt, or not at all. An
// attempt whose transaction is rolled back has failed, whatever the function has returned.
//
// # Names
//
// The name is the lock's, so lockmw.Do with the same name excludes it. Put into it what makes the
// work this and no other: for the report of a day, that day. Where the same name comes again, as
// with a schedule, let Keep be shorter than the time in between. Each name takes space in the store
// for Keep: where clients choose names, give [Uncounted], so that failures take none. [Look] shows
// the record of a name, and [Forget] removes it: to raise [MaxAttempts] does not reopen work.
package once
