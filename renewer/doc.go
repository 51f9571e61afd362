// Package renewer keeps locks alive: it takes leases from a [store.Store],
// renews them in batches, tells the operation when one is lost, and frees them.
// Most programs use package lockmw and its adapters.
//
// # The authority
//
// The store alone decides who has a name. A lease's context is live only while
// the store holds the key: its deadline counts from the instant s before a
// request was sent, never from the answer. With T the TTL and ρ the clock drift
// it is
//
//	d = s + T(1−ρ)/(1+ρ) − 1 ms
//
// The context ends [Config.Margin] before, by a timer that waits for no answer.
// A confirmed heartbeat moves d on.
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
// # Failures
//
//   - The store does not answer: heartbeats are sent again, then the lease is lost,
//     [ReasonExpired], Margin before another owner can have it.
//   - The key is gone or another's: lost at once, [ReasonTaken].
//   - The caller's context ends: so does the operation's. The lease is held until the operation
//     returns, within [Config.CancelGrace] and [Config.MaxHold].
//   - The process dies: the key lapses within the TTL.
//   - The answer to an acquire or a release is lost: what it may have left is freed in the
//     background.
//
// # Many callers in one process
//
// Callers of one keeper wait for a name in the order in which they came, and
// only the first asks the store. A released lease goes to the next of them
// directly, with a new context and a higher fencing token, within
// [Config.HandOffs] and HandOffFor; not after a loss or [Lease.Abort], nor with
// [Lease.HoldAtLeast] or [Request].Manual.
//
// # What a lease cannot promise
//
// A process can be paused between its look at the clock and its act: the next
// instruction runs although the lease is over. [Lease.Valid] is right from then
// on. Where the gap matters, give [Lease.Fence] to what the operation writes
// to. What a store can't promise (fail-over, eviction) is told in its package.
//
// Two goroutines serve all leases, and one more each heartbeat under way. An
// idle lease takes 300 bytes at most.
package renewer
