// Package idempotent carries out an HTTP request once, however often its client sends it.
//
// A client that does not know whether its request came through sends it again, with the same
// Idempotency-Key. [Middleware] runs the handler for the first of them, on whichever server it
// comes in, stores the answer, and gives that to the others:
//
//	guard := idempotent.Middleware(keeper, idempotent.Config{Caller: byUser, Scope: "shop"})
//	mux.Handle("POST /orders", guard(takeOrder))
//
// It stands on package once, and answers as package httpmw does. The keeper's store decides which
// request is the first, and keeps the answers for a day (KeepAnswer): it must be a store.Recorder,
// as redisstore is. A Recorder in [Config] puts them into your own database instead, in one
// transaction with what the handler writes.
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
//	new, and the handler's   503 and Retry-After after 10 s, 429 of a limit: see Lock. The key is
//	lock is held             as new
//	another request's        422: another method, host, path (as sent), query, content type or
//	                         body
//	missing or unusable      400; with KeyOptional a request without a key is let through
//	of no matter: GET,       the handler's, as without the middleware, since these methods change
//	HEAD, OPTIONS, TRACE     nothing
//	known, but the answer    409 without Retry-After: see MaxAnswer
//	was too large to store
//	known, but what is       500: see SealKeys. The handler does not run
//	stored is unreadable
//	new, and the caller has  429 and Retry-After: see MaxStored, MaxRunningPerCaller
//	used up a quota
//
// The outcomes of package httpmw are answered as there: 503 if the store does not answer, or if the
// lock is lost before the handler has answered; 400, 408 and 413 for an unusable body. OnRefused
// answers otherwise.
//
// # What is stored
//
// Final answers are stored: status, body, trailers, and the headers that the handler set, except
// Set-Cookie, Date and those of the connection. These are not final, leave no record, and have the
// next request with the key run the handler again:
//
//   - errors (4xx and 5xx), unless KeepStatus says otherwise;
//   - errors with Retry-After, and refusals by guards further in, whatever KeepStatus says;
//   - no answer at all, since the handler has panicked, or its context has ended, or its process
//     has died, which leaves the record of a request that has begun. So what the handler does must
//     bear to be begun anew.
//
// # What to watch out for
//
//   - A replay skips the handler, and with it what the handler checks. Put authorization outside of
//     the middleware.
//   - Caller tells callers apart. It must tell tenants apart too, unless each has a
//     host of its own. Scope tells services apart that share a store.
//   - A handler goes on when its client has gone, for a minute (FinishWithin): the client comes
//     again, and must not find its request half done. MaxRunningPerCaller bounds how many do.
//   - The answer is kept in memory until it is stored, so the writer is no http.Flusher. One that
//     outgrows MaxAnswer goes out as the handler writes it, and can't be replayed. In the handler's
//     transaction (Recorder) it is rolled back instead, and is a 500.
//   - Put it inside http.TimeoutHandler.
//   - Name the handler's lock by Lock of [Config]. httpmw.Exclusive and httpmw.Handle further in
//     wait for theirs in the transaction of a Recorder, and keep a connection from its holder.
//   - Let renewer.Config.MaxHold exceed http.Server.WriteTimeout.
//
// docs/http.md in the repository has more on these.
package idempotent

// The files, in the order in which to read them. A file uses those below it only.
//
//	middleware.go         a request comes in: its key, its caller and its body
//	exchange.go           the handler runs, or the stored answer is sent
//	config.go             what users can set
//	recorder.go           the handler's writer, and which answers are final
//	stored.go, request.go an answer as it is stored; which request it is to
//	refusal.go            answers in place of the handler's
//
// Package internal/repeat has what does not depend on HTTP: the lock, the record, the quota, the
// seal.
