// Package once runs work that must succeed once, in whichever process: of all
// that call [Do] with the same name, one runs the function, and all get its
// result. If that one fails, dies or loses its lock, another takes over. What
// is here may be called concurrently.
//
//	name := lockmw.Key("invoice", order.ID)
//	invoice, err := once.Do(ctx, keeper, name, func(ctx context.Context) (Invoice, error) {
//		return bill(ctx, order)
//	})
//
// It stands on a lock, and on a record beside it that outlives it for [Keep]
// and that only the latest holder of the lock can write. The authority on both
// is the keeper's store, a store.Recorder as redisstore and memory are; or
// [RecordIn] gives the record one of its own, such as the user's database
// (package sqlrecord).
//
//	            a caller has the lock
//	(nothing) ────────────────────────▶ begun, attempt 1: on record before it runs
//	                                      │
//	    the next caller with the lock,    ├── succeeds ─────────▶ done: all get the result
//	    after a pause if this one failed  ├── Permanent error ──▶ given up: all get ErrGivenUp
//	   ┌──────────────────────────────────┤
//	   │                                  └── fails, dies or loses the lock, and was the last
//	   └▶ begun, attempt n+1                     ──▶ exhausted: all get ErrAttemptsExhausted
//
//	each of them ── Keep passes, or [Forget] ──▶ (nothing): the next call is the first again
//
// Work that is decided costs one question and no lock, new work five (in a
// database eight).
//
// The error is nil if the work is done, now or before. Otherwise it is one of
// the Err… values; with [NoRetry], or if the caller's context has ended, the
// function's own; or one of lockmw.Do, if the call may wait no longer, joined
// with the error of its own attempt.
//
// # Failures
//
//   - The process dies: the lock lapses within renewer.Config.TTL; a caller that waits takes over.
//   - The lock is lost: the function's context ends. If it succeeds all the same, its
//     result counts, unless another call has taken over.
//   - The function panics or calls runtime.Goexit: that passes through, and the attempt counts.
//   - The store is away when the function has returned: it is asked again for renewer.Config.TTL.
//
// That the function is never run again after it has had its effect can't be
// promised: a process may die between the effect and the record, or the store
// lose its data. Let the effect be one that can be repeated, or give
// lockmw.Fence(ctx) to the resource. What is promised is that all get the one
// result that is on record; and, with a [Transactional] recorder, that what the
// function writes by the recorder's transaction is committed together with the
// record, or not at all.
//
// The name is the lock's, so lockmw.Do with the same name excludes it. Put into
// it what makes the work this and no other: for the report of a day, that day.
// Where clients choose names, give [MaxAttempts] lockmw.NoBound.
package once
