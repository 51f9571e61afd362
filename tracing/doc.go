// Package tracing shows every lock in OpenTelemetry: spans, metrics, and a link
// to the holder that a caller waited for, even in another process. It imports
// the OpenTelemetry API, never the SDK.
//
//	keeper, err := renewer.New(store, renewer.Config{Observer: tracing.New()})
//
// Spans and metrics go to the global providers, also if they are set later. All
// names are in TELEMETRY.md.
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
// Each of the first 16 questions that were not granted is a lockbeat.attempt
// beside them. A leader (lockmw.Lead) holds its lock for weeks, so what it does
// is in traces of their own: see [Link].
//
// A lockbeat.acquire that was refused, or had to wait, says who had the lock
// when last seen, and links to the lockbeat.hold of that holder, if it was
// sampled; of a limit, to that whose slot lapses first. The traceparent for it
// lies beside the lock in the store. A span is exported when it ends: while the
// lock is held the other trace may not be there yet, and that of a process that
// died has no lockbeat.hold.
//
// Contention is no error: lockbeat.outcome shows it. A store that can't be
// asked, a lost lock, and a key that could not be freed are errors on their
// spans. A loss, and each heartbeat that failed or was late, is an event on
// lockbeat.hold; a loss on the caller's span too, whose status is left to it.
//
// Heartbeats and clean-ups are sent below a span that is not sampled, so that
// instrumentation of the Redis client makes no spans of them under
// sdktrace.ParentBased, the default: see [WithRenewSpans].
//
// # Cardinality and privacy
//
// Names of locks are in no metric. Spans show a hash, lockbeat.key_hash, as the
// log does: see renewer.HashName and [WithNames]. Metrics have
// lockbeat.operation: beyond 256 different ones the rest is "_OTHER". Texts
// that are read from the store are cut to 64 bytes, and what can't be printed
// is replaced. A program that can write to the store can make a link lead to a
// trace of its choosing.
package tracing
