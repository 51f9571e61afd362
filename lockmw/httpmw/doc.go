// Package httpmw runs net/http handlers under a lock that they never name: of all requests for
// the same thing, one is carried out at a time, on any server. It stands on package lockmw.
//
//	mux.Handle("POST /accounts/{id}/transfer", httpmw.Exclusive(keeper, httpmw.PathValue("id"))(transfer)) // net/http
//	r.With(httpmw.Exclusive(keeper, httpmw.PathValue("id"))).Post("/accounts/{id}/transfer", transfer)     // chi
//
// [Exclusive] is middleware, keyed by the route, a header or a function; [Handle] is
// for keys that only the body has. [Transport] is the client's side: it holds a lock
// around a call. [Idempotent] has a request that is sent again carried out once.
//
// # Outcomes
//
//	the lock is             what is answered
//	----------------------  -----------------------------------------------------------------------------------------
//	free                    whatever the handler answers. The lock is held until it returns, panics or exits
//	held by another         the request waits in line, for 10 s unless [Wait] says otherwise; then 503. [Refuse]: at
//	                        once 409, 423 or 429. [Skip]: 204. [MaxWaiters] (100): 503 for the one too many;
//	                        [MaxWaitersPerClient]: 429
//	not to be had, since    503: the store is down, or the keeper is shut down; never "busy". [FailOpen]: if the store
//	nobody can be asked     is down for a while, some handlers run without
//	not had before the      503 if the request's own deadline, set by other middleware, has passed; nothing if the
//	request ended           client has gone
//	lost while it runs      the request's context ends with cause ErrLost. 503 if the handler has written nothing, else
//	                        what it has written, or with [AbortLost] a broken answer
//	of no usable name       400; no lock is asked for. A body that can't be decoded: 400; 413 if it is too large, 408
//	                        if it comes too slowly
//
// Refusals are problem documents, by RFC 9457, without the lock's name; where it is worth
// asking again they have a Retry-After. To answer otherwise there are [OnBusy], [OnError]
// and [OnLost]. A handler runs, at most, once; when the answer is a refusal it has not run.
//
// # Requests that are sent again
//
// A client that does not know whether its request came through sends it again.
// [Idempotent] has it carried out once all the same, by its Idempotency-Key:
//
//	mux.Handle("POST /orders", httpmw.Idempotent(keeper, byUser, httpmw.Scope("shop"))(takeOrder))
//
//	the key is             what is answered
//	---------------------  ------------------------------------------------------------------------------------------
//	new                    whatever the handler answers, once that is stored
//	known                  the stored answer, with Idempotent-Replayed: true; the handler does not run
//	in flight              409 and Retry-After, or with [WaitForAnswer] the answer when it is there
//	another request's      422: another method, host or path (as sent), query, content type or body
//	missing, unusable      400; with [KeyOptional] a request without one is let through
//	known, but its answer  409, without Retry-After: see [MaxAnswer]
//	was too large
//	known, but what is     500: see [Seal]; the handler does not run
//	stored can't be read
//	new, and the caller    429 and Retry-After: see [MaxStored]
//	has filled its quota
//
// Clients that reach the servers by several addresses send one Host with all of them, or
// middleware further out sets http.Request.Host: by another host a request is another, so that
// tenants with a host each do not get each other's answers. What else tells tenants apart, such
// as a header, belongs into the caller. Other headers are not looked at, since they change from
// one try to the next: let one that changes what is done, such as X-HTTP-Method-Override, be
// applied further out.
//
// Final answers are stored, for [KeepAnswer]: status, body, trailers, and the headers that the
// handler has set, less Set-Cookie, Date and those of the connection. Early hints (1xx) reach the
// client of the first request only. These are not final: no record of them stays in the store,
// and the next request with the key runs the handler again:
//
//   - errors (4xx and 5xx), since an error says that nothing has been done; [KeepStatus] says
//     otherwise, for a handler whose errors have effects;
//   - with KeepStatus too, any 4xx or 5xx with Retry-After;
//   - refusals of this package, whatever their status, such as those of an [Exclusive] inside of
//     Idempotent: its handler has not run.
//
// Nor is an answer stored if the handler panics, if its process dies, or if it returns without
// having answered since its context has ended: the next request with the key takes over. What the
// handler does should therefore bear to be begun anew, as with package once.
//
// A replay skips the handler, and with it whatever the handler itself checks: who was allowed a
// request gets its answer again, also when that right has been revoked. Put authorization further
// out than Idempotent, where it decides on each request, or give it to [BeforeReplay].
//
// A request that has begun is carried out to its end, also when its client has gone: clients give
// up waiting, send the request again, and must not find it half done. The handler's context ends
// when the lock is lost, or [FinishWithin] (a minute) after the client has gone. It keeps the
// request's values, and not its deadline. If the lock is lost, the answer counts all the same,
// unless another request with the key has taken over and has not failed. One request never runs its
// handler twice. Under a lock of a call further out the handler ends with its client, since the
// request's context is what tells it of that lock: put Exclusive inside of Idempotent.
//
// A repeat of the request should get what the first was told. So an answer goes out when it is
// stored, and not before, unless it outgrows MaxAnswer: then it goes out as the handler writes it.
// If it is final, a repeat gets 409.
//
// # The writer
//
// The handler gets the http.ResponseWriter that it would get without, not a wrapped one, so
// that whatever it and the standard library look for in it is there. Therefore nobody knows
// what has been written when the lock is lost: the answer is a call of WriteHeader(503), which
// makes a 503 of the empty 200 that a handler gets which has returned having written nothing,
// and which the writer ignores after anything else. net/http logs such a call as superfluous,
// one line a loss. With [AbortLost] or [OnLost] the writer is wrapped, and it is known.
//
// A handler whose context ends should return without an answer, or with a
// 5xx of its own. One that returned its answer before the loss was noticed
// has done its work: the answer stands, unless AbortLost is given.
//
// The answer goes out when the lock is free, since net/http sends what is left in its buffers
// after the handler has returned; whoever is next may have begun by the time that the client has
// read it. While the store does not answer, freeing takes up to renewer.Config.RequestTimeout. A
// connection that a handler has taken over (http.Hijacker) is its own affair once it has returned.
//
// # Where to put it
//
//   - On the route, where its pattern and its wildcards are known,
//     not around the mux; with chi on r.With, or r.Use below r.Route.
//   - Inside authentication: who may not do a thing must not be able to keep others from it.
//   - Inside http.TimeoutHandler, which ends the wait with the time, and answers itself. The
//     handler behind it may go on running after that, and the lock is held until it returns. Its
//     writer sets no read deadlines: give [MaxBody], so that no body is read under the lock, and
//     set http.Server.ReadTimeout, which is all that bounds a slow body then. Idempotent must be
//     inside of it: further out, it would take the answer for the handler's, which goes on, and
//     would begin it again.
//   - Inside or outside otelhttp: its spans are as without the lock. Inside, they count the wait.
//   - Inside of Idempotent, for Exclusive and Handle: a request that is sent again needs no lock
//     for its answer.
//   - Outside of what compresses or caches answers, so that a refusal is not taken for one.
//
// # Clients that leave
//
// A client that leaves while its request waits takes it out of the line: nothing is
// written, and the handler does not run. The goroutine ends by panic(http.ErrAbortHandler),
// which net/http takes quietly. An ordinary return would make an empty 200 for whoever is
// still there: the clients of a server whose http.Server.BaseContext has ended, at its
// shutdown. They see the connection end, and can try elsewhere. Middleware that recovers
// from panics should let this one pass, as net/http asks of it.
//
// With Expect: 100-continue the client is asked for its body when its key has been found usable,
// and so before the handler has looked at its headers; with [StreamBody] when the handler reads.
//
// An HTTP/1 server does not notice that a client has left while its body is unread, nor if it has
// sent more than the request. So the wait is always bounded, and so is the line ([MaxWaiters]).
//
// # Slow clients
//
// A client that is slow to send keeps no other client waiting. First comes the key function, then
// the body is read, then the lock is asked for:
//
//	a body of              Exclusive reads
//	---------------------  ---------------------------------------------------------------------
//	up to 256 KiB          all of it before the lock, and the server notices a client that leaves
//	more                   its first 256 KiB; the rest is read by the handler, under the lock
//	more, with [MaxBody]   all of it before the lock, into memory; 413 beyond the bound
//	CONNECT, or with       nothing: the handler does, under the lock
//	[StreamBody]
//
// [Handle] and [Idempotent] always have a MaxBody. Each 64 KiB has to come within [BodyTimeout],
// 10 s: 408. Under the lock the handler's Read fails instead; a handler that then returns frees
// the lock. A client that keeps to that pace, which is 6.5 KB a second, has the lock for as long
// as the handler goes on reading: bound what it reads, by MaxBody or http.MaxBytesReader. A
// connection by HTTP/1 is closed when a body was read under the lock. A handler that answers
// while it reads, such as a gRPC server behind net/http, needs StreamBody, by which a client can
// hold the lock for as long as it likes.
//
// A client that is slow to read its answer holds the lock, too, while the handler writes more than
// the connection's buffers take: http.Server.WriteTimeout bounds that. MaxHold bounds how long any
// request has its lock, also one whose handler does not return. So a server should have
//
//	keeper, err := renewer.New(store, renewer.Config{TTL: ttl, MaxHold: 2 * time.Minute})
//	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
//		WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute}
//
// With Idempotent let MaxHold exceed WriteTimeout: a lock that ends while its handler still
// writes lets the next request with the key begin. ReadTimeout ends neither the wait nor the work
// once the body has been read. Of a larger body it counts the wait, too: let it exceed the wait
// and the upload together.
//
// # Times
//
// Let http.Server.WriteTimeout, if it is set, exceed the wait ([Wait], 10 s by default) and the
// handler's work together. It counts from when the request's header was read, and on HTTP/1 it ends
// nothing but the writing: a handler that waits and works for longer runs to its end, and its
// client sees the connection end (EOF) instead of an answer, and may send the request again. Where
// some routes need longer than others, set their deadline outside of the lock, by
// http.ResponseController.SetWriteDeadline. The keeper's observer (renewer.Config.Observer) is told
// of a WriteTimeout that is not above the wait, once for each handler, by its first request. How
// long the work takes this package can't know.
//
// A handler that never returns holds its lock for ever, unless renewer.Config.MaxHold is set.
// Leave CancelGrace at 0 unless the lock may be given away while a handler still runs whose
// client has gone.
//
// To stop, call http.Server.Shutdown and renewer.Keeper.Shutdown at the
// same time. Both wait for handlers that run, and the keeper sends away
// those that wait in line, with 503; the server alone would let them wait.
package httpmw
