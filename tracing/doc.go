// Package tracing shows every lock in OpenTelemetry: spans, metrics, and a
// link to the holder that a caller waited for, even in another process. It is
// an observer of the engine and imports the OpenTelemetry API, never the SDK.
//
//	keeper, err := renewer.New(store, renewer.Config{
//		TTL: renewer.DefaultTTL, Observer: tracing.New(),
//	})
//
// With no options spans and metrics go to the global providers, also
// if they are set later. All names are in TELEMETRY.md.
//
// # What a trace looks like
//
//	POST /accounts/42/transfer            the caller's span
//	├─ lockbeat.acquire                   asking and waiting
//	│  └─ EVALSHA                         the Redis client's own, if it is instrumented
//	└─ lockbeat.hold                      from the question that was granted to the release
//	   ├─ UPDATE accounts                 what runs under the lock
//	   └─ EVALSHA
//
// If the caller has no span, lockbeat.hold is below lockbeat.acquire, so that they are
// in one trace. Each question to the store that was not granted is a lockbeat.attempt
// beside them, up to the next question, for the first 16 of an acquire.
//
// A leader (lockmw.RunWhileHeld) holds its lock for weeks, so what it does is not below that: each
// span it starts is the root of a trace of its own. [Link] makes its link to lockbeat.hold; locks
// that it takes have one by themselves.
//
// # Reading the link
//
// A lockbeat.acquire that was refused, or had to wait, says who had the lock when last seen
// (lockbeat.holder.host, .pid, .operation, .held_for) and links to the lockbeat.hold of that
// holder, if it was sampled: from a slow request, one click leads to the request that it waited
// for. The link goes through the traceparent that the holder keeps beside its lock in the
// store. A span is exported when it ends; so while the lock is still held the other trace may
// not be there yet, and that of a process that died shows no lockbeat.hold, only what was ended
// before. After 16 questions that were not granted the traceparent is that of lockbeat.acquire.
//
// A limit has several holders: the link leads to the one whose slot lapses first. How many there
// were, and how many there may be, say lockbeat.limit_held and lockbeat.limit.
//
// # Errors
//
// Contention is no error: lockbeat.outcome shows it. A store that can't be asked, a lost lock, and
// a key that could not be freed are errors on their spans. A loss is an event on lockbeat.hold and
// on the caller's span, whose status is left to the caller: it may have come to a good end. Each
// heartbeat that failed or was late is an event on lockbeat.hold too; the others it only counts.
//
// # Quiet heartbeats
//
// Heartbeats and clean-ups belong to no request. They are sent on a context whose parent is a
// span that is not sampled, so that instrumentation of the Redis client, such as rueidisotel,
// makes no spans of them under a sampler that follows the parent: sdktrace.ParentBased, the
// default. Under one that doesn't, it makes one each. [WithRenewSpans] makes a lockbeat.renew of
// each batch of heartbeats, linked to the holds in it; the Redis client's spans are below that.
//
// # Cardinality and privacy
//
// The name of a lock or limit is in no metric. Spans show a hash of it, lockbeat.key_hash, the
// same in every process and in the lines of renewer.NewLogObserver; renewer.HashName finds it.
// [WithNames] shows the name itself, and error texts, which may have it in them; error.type has
// four values. Metrics have lockbeat.operation, a static name: beyond 256 different ones the rest
// is "_OTHER". What is read from the store is not trusted: texts are cut to 64 bytes, what can't be
// printed is replaced, and a traceparent that is not exactly one makes no link. A program that can
// write to the store can make a link lead to a trace of its choosing.
//
// # Cost
//
// Of acquire and release together, with metrics, on top of the engine's own, by the SDK, on two
// cores of a virtual machine (best of 25 runs of go test -run ^$ -bench Observer -benchtime 20ms
// -count 25 ./integration/tracing): below a caller that is not sampled 0.7 µs and 4 allocations;
// sampled, with export in batches, 3.8 µs and 20 allocations. A batch of renewals costs a few small
// allocations, however many leases are in it. A keeper without an observer pays nothing.
package tracing
