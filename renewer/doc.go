// Package renewer is Lockbeat's engine: it obtains leases from a [store.Store], keeps
// them alive with batched heartbeats, tells the operation when one is lost, and
// frees them. Most programs use it through package lockmw and its adapters;
// this package is what they, and programs with needs of their own, build on:
// its example takes a lease by hand.
//
// # The authority
//
// The Store alone decides who holds a name. The engine holds a belief about it, and keeps that
// belief inside the truth: the time during which a lease's context is live lies within the time
// for which the store keeps the key. To that end every deadline is counted from the instant before
// a request was queued, not from its answer, so a slow round trip shortens what is believed and
// cannot stretch it. With T the TTL, ρ the clock drift and s that instant, a lease is good until
//
//	d = s + T(1−ρ)/(1+ρ) − 1 ms
//
// and its context is cancelled at d less [Config.Margin], by a timer of
// its own that waits for no answer. A confirmed heartbeat moves d on. One
// that fails or does not answer leaves d where it was and is sent again.
//
// # States
//
//	          granted              confirmed heartbeats
//	asking ────────────▶ held ◀───────┐
//	  │            ▲      │ └─────────┘
//	  │ refused,   │      ├── Release ───────────────▶ released
//	  ▼ cancelled  └──────┤  with others waiting: handed over
//	 (error)              └── lost ── the operation ──────┘
//	                          │       returns: Release
//	                          └ context cancelled, cause *LostError
//
// # Failures and their consequences
//
//   - The store is slow, down, or cut off: heartbeats are retried within
//     what is left of the deadline; two requests always fit. Nothing in
//     time: lost, [ReasonExpired], Margin before anybody else can have the key.
//   - The store says that the key is gone or another's: lost at once, [ReasonTaken].
//   - The caller's context is cancelled: so is the operation's, but the lease is held
//     until the operation returns, since an operation that ignores its context still works
//     on what the lock protects. [Config.CancelGrace] and [Config.MaxHold] bound that.
//   - The process dies: the key lapses within the TTL.
//   - The answer to an acquire is lost: what it may have left is deleted
//     by its owner token, at once and again after [store.Store] Settle.
//   - The answer to a release is lost: it is repeated in the
//     background; the key lapses with its TTL at the latest.
//
// # Many callers in one process
//
// Callers of one keeper who want the same name wait in a queue in this process, in the order in
// which they came, and only its head asks the store. A lease that is released while others wait
// goes to the next without asking, with a new context and a new fencing token out of those that the
// store has reserved; [Config.HandOffs] and [Config.HandOffFor] bound how long that goes on, so
// that other processes get their turn. A reserved token is used only once as many microseconds have
// passed, so that tokens don't run ahead of the store's clock, however operations
// end. If the store loses its data meanwhile (FLUSHALL), a process may hand its lease on
// for up to HandOffFor with tokens below that of another's new grant.
//
// Where the store has a line of those who wait ([store.StatusQueued]), the queue has one place in
// it, from which its head asks if others wait, or did a moment ago. The place keeps its rank when
// the head leaves, and is given up when no caller waits any more. It is no owner token: each
// acquire has one of its own.
//
// A lease is not handed over after a loss or [Lease.Abort], while a heartbeat is
// in doubt, and with [Lease.HoldAtLeast] or [Manual]. To the store it is one lease:
// callers elsewhere who are refused read who took it first, and since when.
//
// # What a lease cannot promise
//
// A lease is a promise about time, and a process can be stopped between looking at the clock
// and acting on it: by the scheduler, a garbage collection, a suspended machine. After such a
// pause the operation's next instruction runs although the lease is over. [Lease.Valid] looks
// at the clock and is right from the first instruction on, but the gap between the look and
// the act remains. Where that matters, pass [Lease.Fence] on to the resource and let it
// refuse tokens lower than the highest it has seen. What a store can't promise — asynchronous
// fail-over, eviction, a restart without its data — is told in that store's package.
//
// # Cost
//
// A keeper runs two goroutines however many leases it holds: one sends heartbeats, one ends what
// was not renewed in time. There is one more for each heartbeat under way, and one for each shard
// on which keys are to be cleaned up. An idle lease costs one renewal an interval, in a batch with
// the others that are due, and 300 bytes at most. [Observer] costs nothing when there is none.
package renewer
