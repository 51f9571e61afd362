// Package httpmw runs net/http handlers under distributed locks that they never
// name. Of all requests with the same name, one runs at a time, on any server.
//
//	lock := httpmw.Middleware(keeper, httpmw.PathInt("account", "id"))
//	mux.Handle("POST /accounts/{id}/transfer", lock(transfer)) // net/http
//	r.With(lock).Post("/accounts/{id}/transfer", transfer)     // chi
//
// The lock's name is what the key function returns: here "account:7", as for
// lockmw.Do. [Wrap] is for names that only the body has. Requests that clients
// send again, by their Idempotency-Key, are for package idempotent.
//
// # Outcomes
//
//	the lock is              the answer is
//	-----------------------  -----------------------------------------------------------------
//	free                     the handler's. The lock is held until the handler returns,
//	                         panics or exits
//	held by another          the handler's, if its turn comes within 10 s (lockmw.Wait); then
//	                         503. With lockmw.Refuse at once 409. With lockmw.Skip 204
//	asked for again, by      409 for the older requests: with lockmw.Replace for one that runs
//	newer requests           and has written nothing, and one that waits; with lockmw.Latest for
//	                         the latter
//	awaited by 100 requests  503 (lockmw.MaxWaiters); 429 by [MaxWaitersPerClient]
//	a limit that is full,    429, at once if the limit is 0
//	or awaited so
//	unknown, since the       503, never "busy". With lockmw.LocalShare some handlers run without
//	store does not answer    a lock if the store is away for a while
//	asked for too late       503 if a deadline has passed, or to nobody if the client has gone
//	lost while the handler   503 if the handler has written nothing, else what it has written,
//	runs                     or with lockmw.Strict a broken answer. The request's context ends
//	                         with the cause renewer.ErrLost
//	not asked for            400 for an unusable name or body, 413 for a body above 1 MiB
//	                         ([MaxBody]), 408 if the server's ReadTimeout has ended it
//
// Refusals are problem documents (RFC 9457) without the lock's name, with a
// Retry-After where it is worth asking again. A request that was refused has
// not run.
//
// # Problem types
//
// A document's type is the address of this page with one of these behind it, or
// "about:blank" for a failure of the server itself, with status 500.
//
//	#busy         another request has the lock, too many wait for it, or the request's
//	              transaction was in conflict
//	#unavailable  the store does not answer, or this server is shutting down
//	#timeout      the request's own time ran out, or its body came too slowly: the detail says
//	              whether it has been carried out
//	#lost         the lock was lost meanwhile: some of it may have been done
//	#replaced     by a newer request: the detail says whether some of it may have been done
//	#bad-request  the request does not say what to lock, or can't be decoded
//	#limit        the limit is full, or closed: the detail has the number
//	#too-many     as many of the client's requests wait, or run, as may
//	#reused       package idempotent: the key is another request's
//	#not-kept     package idempotent: it has been carried out, but its answer was not kept
//	#quota        package idempotent: as many answers to the caller are stored as may
//	#unknown      package idempotent: nobody knows whether what it did is on record
//
// # What to watch out for
//
//   - A handler whose context ends should return without an answer, or with a 5xx of its
//     own.
//   - Set http.Server.ReadTimeout, and renewer.Config.MaxHold for a handler that may not
//     return.
//   - A stream keeps its lock until the handler returns. One that hijacks the connection
//     must close it when the request's context ends, and return when the connection has
//     ended.
//   - To stop, call http.Server.Shutdown and renewer.Keeper.Shutdown at the same time.
package httpmw

// The files, in the order in which to read them:
//
//	middleware.go      the lock is taken; the handler runs; the lock may be lost
//	wrap.go            a request whose body says what to lock; what its handler has written
//	options.go         what users can set, and who may wait
//	keys.go, fence.go  names of locks, and fencing tokens in headers
//	answer.go          answers in place of the handler's
//
// What package idempotent needs too is in internal/httpguard.
