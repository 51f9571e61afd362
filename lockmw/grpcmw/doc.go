// Package grpcmw runs gRPC calls under locks that their handlers never name: of all calls with the
// same name one runs at a time, on any server. It stands on package lockmw.
//
//	transfers := grpcmw.ForMethod(bank.Bank_Transfer_FullMethodName,
//		func(r *bank.TransferRequest) string { return lockmw.Key("account", r.GetFrom()) })
//	watches := grpcmw.ForMetadata(bank.Bank_Watch_FullMethodName, "x-account")
//
//	grpc.NewServer(
//		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(keeper, transfers)),
//		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(keeper, watches)))
//
// The lock's name is what the rule returns. A rule says where it comes from: [ForMethod], [ForMetadata], [ForWholeMethod].
// Methods without a rule pass through. A rule that can't be meant panics when the program starts:
// no generated code of such a method, a request of another type, a streaming method at an
// interceptor of unary ones.
//
// # Outcomes
//
//	the lock is                      code                    reason            the handler
//	-------------------------------  ----------------------  ----------------  ----------------
//	free                             the handler's                             ran under it
//	held by another caller, or too   Aborted                 LOCK_BUSY         did not run
//	  many wait for it
//	a limit that is full or closed   ResourceExhausted       LOCK_BUSY         did not run
//	  (lockmw.Limit)
//	not asked for: too many calls    ResourceExhausted       CALLER_QUOTA      did not run
//	  of this caller wait
//	asked for again by a newer call  Aborted                 REPLACED          did not run, or
//	  (lockmw.Replace, lockmw.Latest)                                          was cancelled
//	not to be had, since the store   Unavailable             LOCK_UNAVAILABLE  did not run
//	  or the keeper is down
//	waited for, and the caller left  Canceled                                  did not run
//	asked for when the call's        DeadlineExceeded                          did not run
//	  deadline had passed
//	of no usable name                InvalidArgument         LOCK_KEY_INVALID  did not run
//	of a rule that can't work        Internal                                  did not run
//	lost while the handler runs      Aborted                 LOCK_LOST         was cancelled
//	lost, and the handler returned   OK, or Aborted by       LOCK_LOST         did its work
//	  no error                       lockmw.Strict
//	kept by a silent client          DeadlineExceeded        LOCK_SILENCE      was cancelled
//
// The reason is that of the status's ErrorInfo. BUSY, QUOTA and UNAVAILABLE say when to come back,
// by RetryInfo and by the trailer grpc-retry-pushback-ms, which gRPC's own retry policy heeds. LOST
// and SILENCE say by that trailer not to retry, since half of the work may be done, and REPLACED
// since a newer call is at it.
//
// A handler's own error passes unchanged unless the lock was lost; a panic and runtime.Goexit pass
// through. A handler may return the error of a lock that it takes itself: the server interceptors
// answer it as above, and [Respond] does so without them. No status has a key in it. Interceptors
// further out find the cause by errors.Is and errors.As: [renewer.ErrBusy], with a *renewer.Error
// that says who has the lock; [renewer.ErrLost], with the handler's own error; and so on.
//
// # Calls that are sent again
//
// [Idempotent] has a call carried out once, however often its client sends it with the same
// idempotency-key. It stands on package once, as package idempotent does for HTTP.
//
// The handler runs for a new key only. A known one gets the stored reply, with
// idempotent-replayed in the header; one in flight is refused as a busy lock is. Errors are not
// stored: the next call with the key runs the handler again. A Recorder keeps replies in
// your own database, in one transaction with what the handler writes. A lock that the
// handler needs is taken by Locks, before that begins. docs/grpc.md has the table of outcomes.
//
// # Streams
//
// A stream is locked when its first message has come, so that one which a client opens and leaves
// holds nothing. Then its handler runs, from its first instruction under the lock, and receives
// that message. A handler that has to send before its client does can't be locked so. Once the lock
// is lost, or the client has been silent for [Silence], SendMsg and RecvMsg fail, those under way
// too.
//
// # What to watch out for
//
//   - Put the interceptors inside of recovery, logging, authentication and validation: no caller
//     should take a lock by a name that is not its own.
//   - A lock that a client takes around its call, by lockmw.Do, does not keep two handlers apart: a
//     server goes on for a moment when its caller has gone. One at the server does.
//   - The lock is held until the handler returns. renewer.Config.CancelGrace bounds how long after
//     its caller has gone, MaxHold how long in all: set both where clients are not your own, and
//     [MaxWaitersPerCaller] where they choose keys.
//   - Accept fencing tokens ([AcceptFence]) only from services of your own, and strip them where
//     calls come in from outside ([StripFence]): a token too high makes a resource refuse all
//     others.
//
// docs/grpc.md has more on streams, retries, calls that are sent again, limits and fencing tokens,
// and the examples of this package run.
package grpcmw
