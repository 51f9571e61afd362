package store

import "time"

// Tuned is a [Store] whose connections are made for leases of some TTL. With shorter ones it would
// notice a dead connection too late to renew on another, so renewer.New refuses them.
type Tuned interface {
	Store

	// LeastTTL returns the shortest TTL that the store is made for; 0 if it does not know.
	LeastTTL() time.Duration
}
