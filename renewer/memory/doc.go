// Package memory is a [renewer.Store] inside this process. It needs no server, and so lets
// a program adopt locks, and test them, before it has Redis; changing over is one line.
//
//	keeper, err := renewer.New(memory.New(), renewer.Config{})
//
// It keeps the whole contract: exclusion, TTLs, fencing tokens that rise, answers
// that name the holder, wake-ups on release. Its authority is a map under a
// mutex; a name in it is free, or held until an instant of the monotonic clock:
//
//	free ── Acquire ──▶ held ── Release by its owner, or the TTL passes without a Renew ──▶ free
//
// What it cannot do:
//
//   - Exclude anybody outside this process, or outside this one
//     [Store]: two processes, two Stores, two locks.
//   - Remember: what was held is free after a restart. Fencing tokens go
//     on rising over a restart only as far as the wall clock does, since
//     each is the time in microseconds, or one more than the token before.
//
// TTLs run on time.Now's monotonic clock, so a change of the wall clock moves none, and
// they follow the fake clock of testing/synctest. There is no goroutine in the
// background: a lapsed name counts as free at once, and its memory is reclaimed when
// names are acquired, so that what is kept stays within twice the names held, and a few.
package memory
