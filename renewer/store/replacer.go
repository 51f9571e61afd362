package store

import (
	"context"
	"time"
)

// Replacer is a [Store] that knows which call for a lock is the newest: of those that wait, and of
// those that have had it. See renewer.Newest and renewer.Request.
//
// A claim with a [Claim.Newness] that is granted is noted, for [RankTTL] if it has a rank, else for
// [NoteTTL]. One that is older is [StatusReplaced] from then on, whether the name is free or not.
// One of the same rank is not older: it is the same work again.
type Replacer interface {
	Store

	// Replace notes that a call is the newest that waits for a name, unless a newer one is noted,
	// or has had the name. It returns [Newness].Since of the call, by the store's clock, in
	// microseconds; 0 if it is not the newest. The process of the call that was noted before is
	// told, as by [Inspector].OnBreak, so that this asks again and hears of it. It may be repeated.
	// An error means that the store has not answered, or that it refuses. A note lapses [NoteTTL]
	// after it was made or repeated.
	Replace(ctx context.Context, r Replacement) (since int64, err error)
}

const (
	// NoteTTL is for how long it is known which call without a rank is the newest.
	NoteTTL = time.Minute
	// RankTTL is for how long the greatest rank is known that has had a name: for as long as older
	// work may come back. A job framework makes a pause of a day after about 17 failures of a job,
	// as asynq's and River's delays grow.
	RankTTL = 24 * time.Hour
)

// Newness is how new a call is. Of two calls with ranks the greater is newer. Of two with the same
// rank, or of which one has none, it is the one that was made later.
type Newness struct {
	// Rank is the caller's: a version, an ID, the time at which work was ordered. 0: none.
	Rank int64
	// Since is when the call was made, by the store's clock, in microseconds, as Replace has
	// returned it to the call before; 0 at first.
	Since int64
	// Age is how long before the question the call was made, by the caller's clock, if Since is 0:
	// at least 1 ns.
	Age time.Duration
}

// Replacement is a call that is to be the newest.
type Replacement struct {
	// Name is that of a lock, and of no limit.
	Name string
	// Owner is the owner token of the call, by which it is known.
	Owner string
	// By is who calls.
	By Holder
	// Newness is how new the call is.
	Newness Newness
	// Break has the lease that another owner has broken if the call is the newest, as by
	// [Inspector].Break, with Broken.Replaced.
	Break bool
	// Over means that the call does not wait any more. The answer is 0.
	Over bool
}
