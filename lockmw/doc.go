// Package lockmw runs a function under a lock that the function never names:
// it gets a context and returns, as it would without. Adapters for asynq,
// net/http and gRPC are built on it; use it directly for everything else.
//
//	receipt, err := lockmw.Do(ctx, keeper, "order:42", charge)
//	safe := lockmw.Wrap(keeper, func(o Order) string { return lockmw.Key("order", o.ID) }, chargeOrder)
//
// # What the function can rely on
//
// Its context ends when the caller's does, or when the lock is lost; context.Cause tells
// which, and a loss comes before anybody else can have the lock. The lock is held until the
// function has returned, also when it ignores its context, panics or calls runtime.Goexit;
// panics pass through. [Fence], [Held] and [Remaining] read the lock from the context.
//
// # When somebody else has the lock
//
// By default the caller waits in line, at most [DefaultWait]; [Wait] sets another
// bound, [Refuse] does not wait, [Skip] takes it that the work is being done.
//
// # Outcomes
//
// errors.Is tells them apart. When the function did not run: [renewer.ErrHeld],
// [ErrSkipped], [renewer.ErrUnavailable] (the store could not be asked), [renewer.ErrName],
// [renewer.ErrShutdown], or the error of the caller's own context. When it ran, its result
// and error stand as they are. If the lock was lost meanwhile, [renewer.ErrLost] is joined
// to an error; a result without error is returned as it is, since the work is done and only
// telemetry needs to know — unless [Strict] asks for an error then too. That a key could
// not be freed is no error here: it lapses with its TTL, and observers hear of it.
//
// # More than once around a function
//
// [Keys] makes one name of several, at most [MaxKeys], for an operation that needs
// all of their locks, without ever waiting in a circle. [DoOrSkip] tells whether
// the function ran. [RunWhileHeld] runs it in one process of many, for as long as
// that lives. [HoldAtLeast] keeps the lock past a function that is done sooner than
// clocks differ. With [Manual] there is no heartbeat: the function calls [Extend]
// between its steps. [Assert] is for code that must not run without the lock.
//
// # Adapters
//
// [Enter], [RefusalOf] and [RetryIn] are what the adapters for asynq, net/http and gRPC
// are made of. Use them for another framework, or where the operation is not one function.
//
// # Nesting
//
// A call for a name that the context already holds through the same keeper runs inside that lease,
// with the same fencing token, rather than wait for itself. It does not exclude its siblings:
// goroutines that an operation starts share its lock.
//
// An inner call may outlive the outer one, which returns without waiting for it. The lock stays
// held, with its heartbeat, and the contexts of both stay live, until the last call inside has
// left; that one frees it. Each call gets to know of a loss up to the moment that it leaves. An
// inner call's context ends when the lock is lost, even if it was made on a context detached by
// context.WithoutCancel. A lock that is over is found by no later call and by none of the helpers,
// however its context was kept.
//
// Different names nest as usual, and like all locks should be taken in the same order everywhere. A
// call inside of several locks taken by [Keys], for one of their names, keeps them all.
package lockmw
