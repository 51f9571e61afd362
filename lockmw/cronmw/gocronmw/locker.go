package gocronmw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultHoldAtLeast is for how long a tick is taken, however short the run, unless that is
// more than half of the shortest time between two of the job's ticks: half of that, then.
const DefaultHoldAtLeast = ticks.DefaultHold

var (
	_ gocron.Locker = (*Locker)(nil)
	_ gocron.Locker = (*gate)(nil)
	_ gocron.Lock   = held(nil)
)

// Config says how a [Locker] locks. Its zero value means the defaults.
type Config struct {
	// HoldAtLeast is for how long a tick is taken, however short the run: more than twice
	// what the nodes' clocks differ by, and at most half of the shortest time between two
	// ticks. Milliseconds; fractions are cut off. Default [DefaultHoldAtLeast] (5 s), or
	// less for frequent jobs that were made by [Locker.NewJob].
	HoldAtLeast time.Duration
}

// Locker has each tick of a job run on one node. Its methods may be called concurrently.
type Locker struct {
	keeper *renewer.Keeper
	least  time.Duration
	hold   ticks.Hold // of jobs whose schedule is not known

	mu    sync.Mutex
	names map[string]bool
}

// NewLocker returns a locker that takes locks of k. The error is [renewer.ErrConfig].
func NewLocker(k *renewer.Keeper, cfg Config) (*Locker, error) {
	if k == nil {
		return nil, fmt.Errorf("%w: NewLocker needs a keeper: renewer.New", renewer.ErrConfig)
	}
	hold, err := ticks.NewHold(cfg.HoldAtLeast, 0)
	if err != nil {
		return nil, err
	}
	return &Locker{keeper: k, least: cfg.HoldAtLeast, hold: hold, names: make(map[string]bool)}, nil
}

// Lock takes a job's lock, for gocron, which calls it on each tick and runs the job if it
// returns no error. The error is [renewer.ErrHeld] if the tick is another node's, or an earlier
// one is still being run; or why that is not known: [renewer.ErrUnavailable], [renewer.ErrName],
// [renewer.ErrShutdown], or ctx's own. gocron passes it to gocron.AfterLockError.
//
// With gocron.WithDistributedLocker a Locker serves all jobs of a scheduler, and takes them
// as they are: their names must be different, their ticks further apart than HoldAtLeast,
// and a node that was paused runs a tick however late it is. [Locker.NewJob] sees to that.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	return l.lock(ctx, job, l.hold)
}

func (l *Locker) lock(ctx context.Context, job string, hold ticks.Hold) (gocron.Lock, error) {
	_, exit, err := lockmw.Enter(ctx, l.keeper, lockmw.Key(ticks.OfLocker, job), lockmw.Refuse(),
		lockmw.Within(hold.Grace),
		lockmw.HoldAtLeast(hold.Least), lockmw.Operation(job), lockmw.Strict())
	if err != nil {
		return nil, err
	}
	return held(exit), nil
}

// held is a lock being held.
type held func(error) error

// Unlock lets go of the lock, no sooner than HoldAtLeast has passed.
// The error is [renewer.ErrLost] if it was lost while the job ran.
func (h held) Unlock(context.Context) error { return h(nil) }
