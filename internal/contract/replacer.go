package contract

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Replacer is a store that knows which call for a lock is the newest: of those
// that wait, and of those that have had it.
//
// A claim with a [store.Newness] that is granted is noted, for [RankTTL] if it
// has a rank, else for [NoteTTL]. One that is older is [store.StatusReplaced]
// from then on, whether the name is free or not. One of the same rank is not
// older: it is the same work again.
type Replacer interface {
	store.Store

	// Replace notes that a call is the newest that waits for a name, unless a
	// newer one is noted, or has had the name. It returns [store.Newness].Since
	// of the call, by the store's clock, in microseconds; 0 if it is not the
	// newest. The process of the call that was noted before is told, as by
	// [store.Inspector].OnBreak, so that this asks again and hears of it. It
	// may be repeated. An error means that the store has not answered, or that
	// it refuses. A note lapses [NoteTTL] after it was made or repeated.
	Replace(ctx context.Context, r Replacement) (since int64, err error)
}

const (
	// NoteTTL is for how long it is known which call without a rank is the
	// newest.
	NoteTTL = time.Minute
	// RankTTL is for how long the greatest rank is known that has had a name:
	// for as long as older work may come back. A job framework makes a pause of
	// a day after about 17 failures of a job, as asynq's and River's delays
	// grow.
	RankTTL = 24 * time.Hour
)

// Replacement is a call that is to be the newest.
type Replacement struct {
	// Name is that of a lock, and of no limit.
	Name string
	// Owner is the owner token of the call, by which it is known.
	Owner string
	// By is who calls.
	By store.Holder
	// Newness is how new the call is.
	Newness store.Newness
	// Break has the lease that another owner has broken if the call is the
	// newest, as by [store.Inspector].Break, with Broken.Replaced.
	Break bool
	// Over means that the call does not wait any more. The answer is 0.
	Over bool
}
