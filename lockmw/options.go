package lockmw

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultWait is how long a caller waits in line unless told otherwise.
const DefaultWait = 10 * time.Second

// ErrSkipped means that somebody else has the lock and that the function was not run, as [Skip] asked for.
var ErrSkipped = errors.New("lockbeat: skipped, somebody else is at it")

// Option says what one wrap does. Of two that contradict each other the later one counts.
type Option func(settings) settings

type settings struct {
	contention contention
	wait       time.Duration
	within     time.Duration // 0: the keeper's RequestTimeout
	waiters    int
	strict     bool
	operation  string
}

type contention uint8

const (
	wait contention = iota
	refuse
	skip
)

func newSettings(opts []Option) settings {
	s := settings{wait: DefaultWait}
	for _, opt := range opts {
		s = opt(s)
	}
	return s
}

// Wait waits in line for at most d, and for a store that is down meanwhile; then [renewer.ErrHeld] or
// [renewer.ErrUnavailable]. Default [DefaultWait] (10 s). Zero or less is [Refuse].
func Wait(d time.Duration) Option {
	return func(s settings) settings {
		s.contention, s.wait = wait, d
		if d <= 0 {
			s.contention = refuse
		}
		return s
	}
}

// Refuse does not wait: [renewer.ErrHeld] if somebody else has the lock.
func Refuse() Option {
	return func(s settings) settings { s.contention = refuse; return s }
}

// Skip does not wait: [ErrSkipped] if somebody else has the lock. It is for work that need not be done twice.
func Skip() Option {
	return func(s settings) settings { s.contention = skip; return s }
}

// Within bounds to d how long [Refuse] and [Skip] ask the store, if that is less than renewer.Config.RequestTimeout; then
// [renewer.ErrUnavailable]. It is for callers who must have answered by then. Zero or less leaves the store no time at all.
func Within(d time.Duration) Option {
	return func(s settings) settings { s.within = max(d, 1); return s }
}

// MaxWaiters bounds how many callers of this process stand in line for one name, behind the one who has the lock or asks for it;
// one more gets [renewer.ErrHeld] with [renewer.ErrLineFull] at once. Zero or less, the default: no limit.
func MaxWaiters(n int) Option {
	return func(s settings) settings { s.waiters = n; return s }
}

// Strict makes a lost lock an error, [renewer.ErrLost], even though the function returned none. The result is returned
// beside it.
func Strict() Option {
	return func(s settings) settings { s.strict = true; return s }
}

// Operation names the work: a static name such as "transfer", which whoever waits for the lock reads, and telemetry shows.
func Operation(name string) Option {
	return func(s settings) settings { s.operation = name; return s }
}

func (s settings) acquire(ctx context.Context, k *renewer.Keeper, name string) (*renewer.Lease, error) {
	switch {
	case s.contention != wait:
		return k.TryAcquire(ctx, name, renewer.MaxWait(s.within), renewer.Operation(s.operation))
	case s.waiters > 0:
		return k.Acquire(ctx, name, renewer.MaxWait(s.wait), renewer.MaxWaiters(s.waiters), renewer.Operation(s.operation))
	default: // the usual, with no option more than it needs
		return k.Acquire(ctx, name, renewer.MaxWait(s.wait), renewer.Operation(s.operation))
	}
}
