package gocronmw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// MaxGrace is the longest grace that a job has by default: see [Config].
const MaxGrace = ticks.MaxGrace

var (
	_ gocron.Locker = (*gate)(nil)
	_ gocron.Lock   = held(nil)
)

// Config says how a [Locker] locks. Its zero value means the defaults.
type Config struct {
	// Grace is how long after it is due a tick may still be begun: by a node that is late, or
	// when the store is back. At most the shortest time between two ticks. Milliseconds;
	// fractions are cut off. Default half of that time, at most [MaxGrace] (15 minutes).
	Grace time.Duration
}

// Locker has each tick of a job run on one node. Its methods may be called concurrently.
type Locker struct {
	keeper *renewer.Keeper
	grace  time.Duration

	mu    sync.Mutex
	names map[string]bool
}

// NewLocker returns a locker that takes locks of k. The error is [renewer.ErrConfig].
func NewLocker(k *renewer.Keeper, cfg Config) (*Locker, error) {
	if k == nil {
		return nil, fmt.Errorf("%w: NewLocker needs a keeper: renewer.New", renewer.ErrConfig)
	}
	if err := k.CheckRecords(); err != nil {
		return nil, err
	}
	if _, err := ticks.NewGrace(cfg.Grace, 0); err != nil {
		return nil, err
	}
	return &Locker{keeper: k, grace: cfg.Grace, names: make(map[string]bool)}, nil
}

// held is a lock being held.
type held func(error) error

// Unlock lets go of the lock. The error is [renewer.ErrLost] if it was lost while the job ran.
func (h held) Unlock(context.Context) error { return h(nil) }
