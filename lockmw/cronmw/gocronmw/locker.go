package gocronmw

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

// MaxGrace is the longest grace that a job has by default: see [Config].
const MaxGrace = ticks.MaxGrace

// Config says how a [Locker] locks. Its zero value means the defaults.
type Config struct {
	// Grace is how long after it is due a tick may still be begun: by a node that is late, or
	// when the store is back. At most the shortest time between two ticks. Milliseconds;
	// fractions are cut off. Default half of that time, at most [MaxGrace] (15 minutes).
	Grace time.Duration
}

// Locker has each tick of a job run on one node. Its methods may be called concurrently.
type Locker struct{ books *ticks.Books }

// NewLocker returns a locker that takes locks of k. The error is [renewer.ErrConfig].
func NewLocker(k *renewer.Keeper, cfg Config) (*Locker, error) {
	books, err := ticks.NewBooks(k, schedulers.OfLocker, cfg.Grace)
	if err != nil {
		return nil, err
	}
	return &Locker{books}, nil
}

// Forget makes a name free for another job. The old one must have been removed from its scheduler.
func (l *Locker) Forget(job string) { l.books.Forget(job) }
