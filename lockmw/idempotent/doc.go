// Package idempotent carries out an HTTP request once, however often its client
// sends it with the same Idempotency-Key: the first one runs the handler, on
// whichever server it comes in, and the others get its answer.
//
//	guard := idempotent.Middleware(keeper, idempotent.Config{Caller: byUser, Scope: "shop"})
//	mux.Handle("POST /orders", guard(takeOrder))
//
// It is package once for requests; for calls there is grpcmw.Idempotent. The
// keeper's store decides which request is the first, and keeps the answers for
// a day; or a Recorder puts them into your own database, in one transaction
// with what the handler writes.
//
// # Outcomes
//
// The names are those of [Config].
//
//	the key is               the answer is
//	-----------------------  -----------------------------------------------------------------
//	new                      the handler's, when it is stored; if it can't be, all the same, and
//	                         the observer is told
//	known                    the stored one, with Idempotent-Replayed: true. The handler does
//	                         not run
//	in flight                409 and Retry-After; with WaitForAnswer the answer when it is there
//	new, and Lock is held    503 and Retry-After after 10 s, 429 of a limit. The key is as new
//	another request's        422: another method, host, path (as sent), query, content type or
//	                         body
//	missing or unusable      400; with KeyOptional a request without a key is let through
//	known, but the answer    409 without Retry-After: see MaxAnswer
//	was too large to store
//	known, but unreadable    500: see SealKeys. The handler does not run
//	new, and the caller has  429 and Retry-After: see MaxStored, MaxRunningPerCaller
//	used up a quota
//
// GET, HEAD, OPTIONS and TRACE change nothing, and are let through. The other
// outcomes are those of package httpmw: of a store that does not answer, a lost
// lock, an unusable body.
//
// # What is stored
//
// Final answers: status, body, trailers, and the headers that the handler set,
// except Set-Cookie, Date and those of the connection. These are not final, and
// have the next request with the key run the handler again, so what it does
// must bear to be begun anew:
//
//   - errors (4xx and 5xx), unless KeepStatus says otherwise;
//   - errors with Retry-After, and refusals by guards further in;
//   - none at all, since the handler panicked, its context ended or its process died.
//
// # What to watch out for
//
//   - A replay skips the handler, and what it checks. Put authorization outside of
//     the middleware, and the middleware inside http.TimeoutHandler.
//   - A handler goes on when its client has gone (FinishWithin): the client comes
//     again, and must not find its request half done.
//   - The answer is kept in memory until it is stored. So the handler's writer is no
//     http.Flusher or http.Hijacker; http.ResponseController sets deadlines.
//   - Let renewer.Config.MaxHold exceed http.Server.WriteTimeout.
//
// docs/http.md in the repository has more.
package idempotent

// The files, in the order in which to read them:
//
//	middleware.go  a request comes in: its key, its caller and its body; the handler runs, or the
//	               stored answer is sent
//	config.go      what users can set
//	recorder.go    the handler's writer, and which answers are final
//	stored.go      an answer as it is stored
//	refusal.go     answers in place of the handler's
//
// Package internal/repeat has what does not depend on HTTP: the lock, the
// record, which request it is, the quota, the seal.
