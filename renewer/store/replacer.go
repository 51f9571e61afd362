package store

import "context"

// Replacer is a [Store] that knows which call is the newest that waits for a lock, for calls
// of whom none but the newest is to wait. See renewer.Replace and renewer.Latest.
type Replacer interface {
	Store

	// Replace notes that a call is the newest that waits for a name, unless a later one is noted.
	// It returns since when the call is the newest, by the store's clock, in microseconds; 0 if it
	// is not. The process of the call that was noted before is told, as by [Inspector].OnBreak, so
	// that this asks again and hears of it. It may be repeated. An error means that the store has
	// not answered, or that it refuses. A note lapses a minute after it was made or repeated.
	Replace(ctx context.Context, r Replacement) (since int64, err error)
}

// Replacement is a call that is to be the newest.
type Replacement struct {
	// Name is that of a lock, and of no limit.
	Name string
	// Owner is the owner token of the call, by which it is known.
	Owner string
	// By is who calls.
	By Holder
	// Since is what Replace has returned to the call before; 0 at first.
	Since int64
	// Break has the lease that another owner has broken if the call is the newest, as by
	// [Inspector].Break, with Broken.Replaced.
	Break bool
	// Over means that the call does not wait any more. The answer is 0.
	Over bool
}
