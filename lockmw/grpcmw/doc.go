// Package grpcmw runs gRPC calls under distributed locks that their handlers
// never name. Of all calls with the same name, one runs at a time, on any
// server.
//
//	transfers := grpcmw.ForMethod(bank.Bank_Transfer_FullMethodName,
//		func(r *bank.TransferRequest) string { return lockmw.Key("account", r.GetFrom()) })
//	watches := grpcmw.ForMetadata(bank.Bank_Watch_FullMethodName, "x-account")
//
//	grpc.NewServer(
//		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(keeper, transfers)),
//		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(keeper, watches)))
//
// The lock's name is what the rule of the method returns; methods without a
// rule pass through. Calls that clients send again, by their idempotency-key,
// are for [Idempotent].
//
// # Outcomes
//
//	the lock is                    code               reason            the handler
//	-----------------------------  -----------------  ----------------  ---------------
//	free                           the handler's                        ran under it
//	held by another, or awaited    Aborted            LOCK_BUSY         did not run
//	by too many
//	a limit that is full, closed   ResourceExhausted  LOCK_BUSY         did not run
//	not asked for: the caller      ResourceExhausted  CALLER_QUOTA      did not run
//	has too many calls that wait
//	asked for again by a newer     Aborted            REPLACED          did not run, or
//	call (lockmw.Replace, Latest)                                       was cancelled
//	unknown, since the store does  Unavailable        LOCK_UNAVAILABLE  did not run
//	not answer, or at shutdown
//	waited for by a caller that    Canceled                             did not run
//	has gone
//	asked for after the call's     DeadlineExceeded                     did not run
//	deadline
//	of no usable name              InvalidArgument    LOCK_KEY_INVALID  did not run
//	of a rule that can't work      Internal                             did not run
//	lost while the handler runs    Aborted            LOCK_LOST         was cancelled
//	lost, and the handler          OK; Aborted        LOCK_LOST         did its work
//	returned no error              by lockmw.Strict
//	kept by a silent client        DeadlineExceeded   LOCK_SILENCE      was cancelled
//
// The reason is that of the status's ErrorInfo. BUSY, QUOTA and UNAVAILABLE say
// when to come back, by RetryInfo and by the trailer grpc-retry-pushback-ms,
// which gRPC's own retry policy heeds. LOST, SILENCE and REPLACED say by that
// trailer not to retry: half of the work may be done, or a newer call is at it.
//
// A handler's own error passes unchanged unless the lock was lost; a panic
// passes through. The error of a lock that a handler takes itself is answered
// as above. No status has the lock's name in it. Interceptors further out find
// the cause by errors.Is and errors.As.
//
// # Streams
//
// A stream takes its lock when its first message has come, and keeps it to its
// end. Its handler receives that message; one that has to send first can't be
// under a rule. Once the lock is lost, or the client has been silent for too
// long ([Silence]), SendMsg and RecvMsg fail, those under way too.
//
// # What to watch out for
//
//   - Put the interceptors inside of recovery, logging, authentication and validation.
//   - The lock is held until the handler returns. Where clients are not your own, set
//     renewer.Config.CancelGrace, which bounds how long that is when the caller has
//     gone, and MaxHold; where they choose names, [MaxWaitersPerCaller].
//
// docs/grpc.md in the repository has more.
package grpcmw
