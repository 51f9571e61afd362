// Package grpcmw runs gRPC calls under locks that their handlers never name: of all calls
// with the same key one runs at a time, on any server. It stands on package lockmw.
//
//	grpc.NewServer(
//		grpc.UnaryInterceptor(grpcmw.UnaryServerInterceptor(keeper,
//			grpcmw.ForMethod(bank.Bank_Transfer_FullMethodName, func(r *bank.TransferRequest) string {
//				return lockmw.Key("account", r.GetFrom())
//			}))),
//		grpc.StreamInterceptor(grpcmw.StreamServerInterceptor(keeper,
//			grpcmw.ForMetadata(bank.Bank_Watch_FullMethodName, "x-account"))))
//
// A rule says where a method's key comes from: [ForMethod], [ForMetadata], [ForWholeMethod].
// Methods without one pass through. A rule that can't be meant panics when the program
// starts: no such method, a request of another type, a streaming method given to an
// interceptor of unary ones. So that this is known the service's generated code must be
// linked in; if it is not, a request of another type is codes.Internal when it comes.
//
// # Outcomes
//
//	the lock is            code                  ErrorInfo         the handler
//	---------------------  --------------------  ----------------  ---------------------------------------------------
//	free                   its own                                 ran; the lock was held until it returned
//	held by another, for   Aborted               LOCK_BUSY         did not run. RetryInfo and the trailer
//	all of [Wait]; or too  ([BusyCode])                            grpc-retry-pushback-ms say when to come back
//	many wait for it
//	not asked for: too     ResourceExhausted     LOCK_QUOTA        did not run; the same
//	many of the caller's
//	calls wait for locks
//	([MaxWaitersPerCaller])
//	not to be had: store   Unavailable           LOCK_UNAVAILABLE  did not run; the same
//	or keeper is down
//	waited for when the    DeadlineExceeded or                     did not run
//	caller's time is up,   Canceled
//	or it has gone
//	lost while it runs     Aborted               LOCK_LOST         its context ended, with cause ErrLost. The trailer says
//	                                                               not to retry: it may have done half of its work
//	lost, yet it returned  OK ([Strict]:                           did its work
//	no error               LOCK_LOST)
//	kept by a stream       DeadlineExceeded      LOCK_SILENCE      its context ended, with cause [ErrSilence]. The trailer
//	whose client is                                                says not to retry
//	silent ([Silence])
//	of no usable name      InvalidArgument       LOCK_KEY_INVALID  did not run; the store was not asked
//	of a rule that can't   Internal                                did not run
//	work
//
// A handler of a stream that takes its lock later than it runs (see below) gets the refusal from
// RecvMsg or SendMsg, where the table says that it did not run.
//
// A handler's own error passes unchanged unless the lock was lost. Its panic passes through, and
// runtime.Goexit too.
//
// The error of a lock that a handler has taken itself, by lockmw.Do for instance, says which lock
// it is and who holds it, host and process. The server interceptors answer it as the table does,
// for methods without a rule too: a handler may return it as it is. Without the interceptors, or to
// log it first, there is [Respond]. A status that a handler has made itself is its own, words and
// all; it goes out without the words around it if those are of a lock. Errors of package once, and
// those of which only the words are left (fmt.Errorf with %v), lose these.
//
// No status of this package has a key in it. What an error is made of does not leave the process,
// but interceptors further out find it by errors.Is and errors.As: [renewer.ErrHeld], with a
// *renewer.Error that says who has the lock; [renewer.ErrLost], with the handler's own error; and
// so on.
//
// # Streams
//
// A stream is locked by its first message, so that one which a client has opened and left holds
// nothing:
//
//   - On a server, in the first RecvMsg, when the message has come. For methods that get one
//     message and answer with many, that is before the handler runs. Other handlers begin
//     without the lock: what they do before they have received is not under it. By [ForMetadata]
//     and [ForWholeMethod] the lock is taken in the first SendMsg too, if that comes first, and
//     when the client has ended its side without a message; a call without a usable key is
//     refused before the handler runs. By [ForMethod] SendMsg fails before the first message,
//     rather than send from an operation that has no lock yet, and a stream that ends without a
//     message has no key. SendHeader never fails for that.
//   - On a client, by [ForMethod], in the first SendMsg. The stream is opened only then, since
//     the server begins to work when it is; RecvMsg and Header wait until it is open. Call
//     options hear of a stream that is never opened by grpc.OnFinish, as of one that is. By the
//     other rules it is locked before it is opened: the client is the program itself.
//
// On a server the stream's Context carries the lock from then on; a context that was taken from
// it before finds the lock then, and ends with it too. A handler that works before it receives or
// sends works without the lock: receive first. One that returns nil without having done either is
// answered with codes.Internal, since all of its work was done so.
//
// A call that was refused ends with the refusal, whatever its handler makes of the error of
// RecvMsg or SendMsg.
//
// While a server waits for a client under a lock, others wait for the client too. [Silence]
// bounds that, to a minute by default: raise it for streams on which a goroutine waits in RecvMsg
// and both sides may be quiet for longer. It is no bound on a client that sends a message now and
// then: renewer.Config.MaxHold is.
//
// Once the lock is lost SendMsg and RecvMsg fail with LOCK_LOST, by the clock: on the first
// instruction after a pause of the process, when no context has ended yet. Those under way return
// as well, even if the peer keeps silent; a server needs a goroutine for each to do so. That and
// the clock cost two microseconds each (go test -bench StreamOperation). The message of a RecvMsg
// that has failed so must not be used again: it may still be written to until the handler has
// returned. Generated code does not. A stream of which anything has failed so ends with LOCK_LOST
// even if its handler returns no error: it is not whole. All of this holds for silence and
// LOCK_SILENCE too.
//
// # Clients
//
// [UnaryClientInterceptor] and [StreamClientInterceptor] put the lock around the call
// where it is made. A retry policy of gRPC tries again under the same lock. Retrying
// interceptors belong further out: each try has a lock of its own then, while further in
// a stream's lock is freed when the first try has finished, and the next fails for it.
//
// A stream's lock is freed when the stream has finished, by grpc.OnFinish. gRPC
// finishes a stream when RecvMsg has returned an error (io.EOF too), when its context
// ends, or when the connection is closed; one that is just forgotten it never finishes:
// cancel its context. Set renewer.Config.MaxHold to bound what such a mistake costs.
//
// A server goes on for a moment when its caller has gone. So a lock at
// the client does not keep two handlers apart; one at the server does.
//
// # Coming back
//
// gRPC's own retry policy comes back when it is told, if it knows the
// code. Its backoff is not used then:
//
//	grpc.WithDefaultServiceConfig(`{"methodConfig": [{
//		"name": [{"service": "bank.Bank"}],
//		"retryPolicy": {"maxAttempts": 4, "initialBackoff": "1s", "maxBackoff": "10s", "backoffMultiplier": 2,
//			"retryableStatusCodes": ["ABORTED", "UNAVAILABLE"]}}]}`)
//
// LOCK_LOST has the code too, and a trailer that tells the policy not
// to. Who retries by hand reads the ErrorInfo's reason.
//
// # Where to put it
//
// Inside of recovery, logging, authentication and validation: nobody should take a lock by a name
// that is not theirs, and recovery finds the lock free. Two interceptors in a chain take two locks,
// the outer one's first; take them in the same order everywhere. An interceptor that wraps SendMsg
// and RecvMsg further out is called from other goroutines than the handler's, one at a time each.
//
// # Limits
//
// A call waits for [lockmw.DefaultWait] at most, in a goroutine of the server: set [Wait]. At a
// server [DefaultMaxWaiters] calls wait for one key: see [MaxWaiters]. For keys that callers
// choose, set [MaxWaitersPerCaller] too.
//
// The lock is held until the handler returns, also when its caller has gone:
// renewer.Config.CancelGrace bounds how long after that, and MaxHold how long in all. Set both
// where clients are not your own, and let gRPC's server drop those who are gone or ask for too
// much:
//
//	keeper, err := renewer.New(store, renewer.Config{TTL: 15 * time.Second, CancelGrace: 10 * time.Second, MaxHold: 5 * time.Minute})
//	server := grpc.NewServer(
//		grpc.MaxConcurrentStreams(100),           // calls under way on one connection; default: no limit
//		grpc.ConnectionTimeout(10*time.Second),   // until a connection is set up; default 2 minutes
//		grpc.KeepaliveParams(keepalive.ServerParameters{
//			Time: 30 * time.Second, Timeout: 10 * time.Second, // asks a quiet peer; default 2 hours and 20 s
//		}),
//		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second}), // how often clients may ask
//		…)
//
// Keepalive ends the calls of a peer whose machine or network is dead, which otherwise is noticed
// late or never. A live client that is silent answers it: [Silence] is for that one.
//
// # Fencing tokens
//
// [PassFence] at the client and [AcceptFence] at the server pass the token of a caller's lock on
// to what works for it elsewhere; [InjectFence] and [ExtractFence] do so by hand. A call's own
// lock wins over the token that came with it. A lock that was lost goes on giving its token: a
// resource that has seen that of a later holder refuses it.
//
// Whom to trust: a token too high makes a resource refuse everybody else. So accept tokens only
// behind the edge of the system, from services of your own, and strip them at the edge, where
// calls come in from outside ([StripFence]): a gateway may copy the metadata of what came.
// Without AcceptFence nothing is believed, but what came stays in the incoming metadata.
package grpcmw
