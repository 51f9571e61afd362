// Package lockmw runs a function under a lock that the function never names: the function gets a
// context and returns, as it would without. Adapters for asynq, net/http and gRPC are built on it;
// use it directly for everything else.
//
//	receipt, err := lockmw.Do(ctx, keeper, "order:42", charge)
//
//	key := func(o Order) string { return lockmw.Key("order", o.ID) }
//	safe := lockmw.Wrap(keeper, key, chargeOrder) // the same signature as chargeOrder
//
// The examples of [Do], [Keys], [Manual], [RunWhileHeld] and [Fence] run.
//
// # What the function can rely on
//
// Its context ends when the caller's does, or when the lock is lost; context.Cause reports which,
// and a loss comes before any other process can have the lock, unless the store itself has lost it.
// The lock is held until the function has returned, also when it ignores its context, panics or
// calls runtime.Goexit; panics pass through. [Fence], [Held] and [Remaining] read the lock from the
// context.
//
// # When another caller has the lock
//
// By default the caller waits in line, at most [DefaultWait]; [Wait] sets another bound, [Refuse]
// does not wait, [Skip] leaves the work to the holder. With [Replace] the newest call ends the one
// that runs, with [Latest] it waits as the only one: for work of which the last request counts.
// [Ranked] says which that is.
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
//	unknown, since the store is down  did not run   [renewer.ErrUnavailable]
//	of no usable name                 did not run   [renewer.ErrName]
//	of a keeper that is shut down     did not run   [renewer.ErrShutdown]
//	waited for when the context ends  did not run   that of the caller's context, and ErrBusy if a
//	                                                deadline ended the wait for another caller
//
// The result is returned beside the error. A key that could not be freed is no error here: it
// lapses with its TTL, and observers hear of it.
//
// # More than once around a function
//
// [Keys] makes one name of several, at most 64, for an operation that needs all of their
// locks, without ever waiting in a circle. [Run] reports whether the function ran.
// [RunWhileHeld] runs it in one process of many, for as long as that lives. [HoldAtLeast] keeps the
// lock past a function that is done sooner than clocks differ. With [Manual] there is no heartbeat:
// the function calls [Extend] between its steps. [Held] is for code that must not run without the
// lock. docs/write-an-adapter.md shows how to build on [Run], [RefusalOf] and [RetryIn], or on
// package jobs, for another framework.
//
// # Nesting
//
// A call for a name that the context already holds through the same keeper runs inside that lease,
// with the same fencing token, rather than wait for itself. It does not exclude its siblings:
// goroutines that an operation starts share its lock.
//
// An inner call may outlive the outer one, which returns without waiting for it. The lock stays
// held, with its heartbeat, and the contexts of both stay live, until the last call inside has
// left; that one frees it. Each call hears of a loss up to the moment that it leaves. An inner
// call's context ends when the lock is lost, even if it was made on a context detached by
// context.WithoutCancel. A lock that is over is found by no later call and by none of the helpers,
// however its context was kept.
//
// Different names nest as usual, and like all locks should be taken in the same order everywhere. A
// call inside of several locks taken by [Keys], for one of their names, keeps them all.
package lockmw
