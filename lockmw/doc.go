// Package lockmw runs a function under a lock that the function never names.
// These sixteen names do the main job, here and in every adapter:
//
//	receipt, err := lockmw.Do(ctx, keeper, lockmw.Key("order", "42"), charge) // (Receipt, error)
//	err := lockmw.Run(ctx, keeper, lockmw.Limit("upstream", 3), fetch)        // error
//	safe := lockmw.Wrap(keeper, Order.Lock, chargeOrder)                      // same signature
//
//	what to lock      Key, All, Limit          a name is a string or a Set
//	how to run        Do, Run, Wrap, Lead
//	if it is busy     Wait (10 s, the default), Refuse, Skip, Replace, Latest
//	for how long      MaxHold; Operation names the work
//	inside            Fence, Held
//
// # Outcomes
//
// errors.Is tells them apart:
//
//	the lock is                       the function  the error
//	--------------------------------  ------------  -------------------------------------------
//	free                              ran           its own, as it is
//	lost while the function runs      ran           its own, with [renewer.ErrLost] joined
//	lost, and it returned no error    ran           none: the work is done; [Strict]: ErrLost
//	held by another caller            did not run   [renewer.ErrBusy]; [Skip]: [ErrSkipped]
//	waited for by a newer call        did not run   [renewer.ErrBusy] with [renewer.ErrReplaced]
//	replaced while the function runs  ran           as for lost, with [renewer.ErrReplaced] too
//	unknown, since the store is away  did not run   [renewer.ErrUnavailable]
//	of no usable name                 did not run   [renewer.ErrName]
//	of a keeper that is shut down     did not run   [renewer.ErrShutdown]
//	waited for when the context ends  did not run   that of the caller's context, and ErrBusy if a
//	                                                deadline ended the wait for another caller
//
// The function's context ends when the caller's does, or when the lock is lost;
// context.Cause says which, and a loss comes before any other process can have
// the lock, unless the store itself has lost it. The lock is held until the
// function has returned, also when it ignores its context, panics or calls
// runtime.Goexit; panics pass through.
//
// # Which of?
//
//	a lock      one at a time; ends with the function          a name (Key)
//	a limit     n at a time; ends with the function            Limit(name, n)
//	a set       several at once, never in a circle             All(a, b)
//	once        remembered: the result is there for others     package once
//	idempotent  once, for requests with an Idempotency-Key     package idempotent
//	cron        one run a tick, on one node                    package cronmw
//	a leader    one process, for as long as it lives           Lead
//	a fence     a late holder can't write                      packages fencedb, fencetx
//
// From outside in: authentication, idempotent, lock, time-out of the work,
// transaction, work. docs/which.md says more.
//
// # Nesting
//
// A call for a name that the context already holds through the same keeper runs
// inside that lease, with the same fencing token, rather than wait for itself.
// It does not exclude its siblings: goroutines that a function starts share its
// lock. An inner call may outlive the outer one: the last to leave frees the
// lock.
//
// Different names nest as usual, and like all locks should be taken in the same
// order everywhere: [All] does that.
//
// For another framework of jobs see package jobs, for anything else package
// adapter.
package lockmw
