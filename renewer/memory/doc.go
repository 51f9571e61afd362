// Package memory is a [store.Store] inside this process. It needs no server, so a program can
// adopt locks, and test them, before it has Redis. To change over is one line.
//
//	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
//
// It keeps the whole contract: exclusion, TTLs, fencing tokens that rise, answers that name the
// holder, wake-ups on release. Its authority is a map under a mutex. A name in it is free, or held
// until an instant of the monotonic clock:
//
//	free ── Acquire ──▶ held ── Release by its owner, or the TTL passes without a Renew ──▶ free
//	held ── Break ──▶ held, and not renewed; by force: free
//
// What it cannot do:
//
//   - Exclude callers outside this process, or of another [Store]: two Stores are two locks.
//   - Remember: after a restart every name is free. Fencing tokens go on rising over a restart only
//     as far as the wall clock does. Each is the time in microseconds, or one more than the token
//     before.
//
// TTLs run on time.Now's monotonic clock. So a change of the wall clock moves none, and they follow
// the fake clock of testing/synctest. There is no goroutine in the background. A lapsed name counts
// as free at once. Its memory is reclaimed when names are acquired, so that the store keeps at most
// twice the names held, and a few.
package memory
