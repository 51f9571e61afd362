// Package memory is a [store.Store] inside this process. It needs no server, so
// a program can adopt locks, and test them, before it has Redis.
//
//	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
//
// It keeps the whole contract. Its authority is a map under a mutex. What it
// cannot do:
//
//   - Exclude callers outside this process, or of another [Store]: two Stores are two locks.
//   - Remember: after a restart every name is free. Fencing tokens go on rising over a restart only
//     as far as the wall clock does. Each is the time in microseconds, or one more than the token
//     before.
//
// TTLs run on time.Now's monotonic clock, and follow the fake clock of
// testing/synctest. There is no goroutine in the background: the memory of
// lapsed names is reclaimed when names are acquired.
package memory
