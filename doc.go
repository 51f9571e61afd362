// Package lockbeat puts a distributed lock around a job, a request or a call, without the
// wrapped code ever naming the lock. A heartbeat keeps a short lease in Redis alive while the
// operation runs; a process that dies frees it within seconds; a lease that is lost is told to
// the operation before any other process can have it.
//
// This package has no code. Begin with
//
//   - package lockmw: lockmw.Do runs a function under a lock; names, options and outcomes;
//   - package renewer: the keeper that a program makes once, and what a lease can't promise;
//   - packages redisstore, memory and quorum below renewer: where locks are kept;
//   - packages httpmw, ginmw, grpcmw, asynqmw (in lockmw/asynq), rivermw and cronmw below
//     lockmw: the same for requests, calls, jobs and schedules; once and idempotent: work that
//     succeeds once; fencedb: connections on which a late holder commits nothing;
//   - package tracing: OpenTelemetry; inspect: who has which lock; cmd/lockbeat: the command.
//
// A program that locks:
//
//	store, err := redisstore.Open(ctx, redis)
//	keeper, err := renewer.New(store, renewer.Config{})
//	defer keeper.Shutdown(ctx)
//
//	receipt, err := lockmw.Do(ctx, keeper, lockmw.Key("order", "42"), charge)
//
// docs/which.md says which of these is for what.
package lockbeat
