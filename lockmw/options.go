package lockmw

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// DefaultWait is how long a caller waits in line unless told otherwise.
const DefaultWait = 10 * time.Second

// ErrSkipped means that another caller has the lock and that the
// function was not run, as [Skip] asked for.
var ErrSkipped = errors.New("lockbeat: skipped, another caller is at it")

// Option says what one wrap does. Of two that contradict each other the later one counts.
type Option func(settings) settings

type settings struct {
	contention contention
	newest     renewer.Option // nil unless of the calls of its kind the newest alone waits
	rank       renewer.Option // nil without one
	wait       time.Duration
	within     time.Duration // 0: the keeper's RequestTimeout
	inTime     bool          // wait and within end before the context's deadline
	waiters    int
	limit      func(name string) int // nil: names are those of locks, unless made by Limit
	share      int                   // see LocalShare
	shared     bool                  // it was given
	strict     bool
	operation  renewer.Option
	named      string // the same, for LocalShare
	expected   bool   // see RefusalExpected
	least      time.Duration
	manual     renewer.Option // nil: with a heartbeat
	maxHold    renewer.Option // nil: the keeper's
}

type contention uint8

const (
	wait contention = iota
	refuse
	skip
)

func newSettings(opts []Option) settings {
	s := settings{wait: DefaultWait, operation: unnamed}
	for _, opt := range opts {
		s = opt(s)
	}
	return s
}

var unnamed = renewer.Operation("")

// Wait waits in line for at most d, and for a store that is down meanwhile; then
// [renewer.ErrBusy] or [renewer.ErrUnavailable]. Default [DefaultWait] (10 s). It bounds
// [Replace] and [Latest], too, before or after it. Zero or less is [Refuse]. With [Keys] the
// locks that were already taken are given back first. That takes one or two
// renewer.Config.RequestTimeout more if the store does not answer.
// The first in line for a limit waits up to a quarter of that longer for an answer which is for
// others, too.
func Wait(d time.Duration) Option {
	return func(s settings) settings {
		if d <= 0 {
			return s.refuse(refuse)
		}
		s.contention, s.wait = wait, d
		return s
	}
}

// Refuse does not wait: [renewer.ErrBusy] if another caller has the lock.
func Refuse() Option {
	return func(s settings) settings { return s.refuse(refuse) }
}

// Skip does not wait: [ErrSkipped] if another caller has the lock. It
// is for work that need not be done twice.
func Skip() Option {
	return func(s settings) settings { return s.refuse(skip) }
}

// refuse has the call not wait.
func (s settings) refuse(how contention) settings {
	s.contention, s.newest = how, nil
	return s
}

// HoldAtLeast keeps the lock for d after the function began, even if it returns earlier: for work
// that must not be done again so soon, by a process whose clock is behind. It lapses by itself
// then. With [Keys] it keeps all locks, in an inner call the outer call's. What was taken and given
// back without the function having run is free at once. Default: the lock is free when the function
// has returned.
func HoldAtLeast(d time.Duration) Option {
	return func(s settings) settings { s.least = d; return s }
}

// Manual takes the lock for d without a heartbeat: the function extends it
// itself between its steps, by [Extend], or loses it when d is over, less clock
// drift and renewer.Config.Margin. A function that hangs gives its lock up so.
func Manual(d time.Duration) Option {
	manual := renewer.Manual(d)
	return func(s settings) settings { s.manual = manual; return s }
}

// MaxHold bounds how long the lock is held, whatever the function does, in place of
// renewer.Config.MaxHold: d from when it is taken, after which the function is told that it is
// lost. It may be longer or shorter. Zero or less: no bound. Others have the lock when the function
// has returned, or one TTL later at the latest; with [Manual] or [HoldAtLeast] when that time is
// over. With [Keys] it bounds each of the locks. An inner call has no lock of its own, so the outer
// call's bound stays. If d is less than one renewer.Config.Heartbeat, the call is refused with
// [renewer.ErrConfig]. Default: the keeper's bound; for [RunWhileHeld] none.
func MaxHold(d time.Duration) Option {
	bound := renewer.MaxHold(d)
	return func(s settings) settings { s.maxHold = bound; return s }
}

// Within bounds to d how long [Refuse] and [Skip] ask the store, if that is less
// than renewer.Config.RequestTimeout; then [renewer.ErrUnavailable]. It is for
// callers that must answer by then. Zero or less leaves the store no time at all.
func Within(d time.Duration) Option {
	return func(s settings) settings { s.within = max(d, 1); return s }
}

// MaxWaiters bounds how many callers of this process wait in line for one name,
// behind the one that has the lock or asks for it; one more gets [renewer.ErrBusy]
// with [renewer.ErrQueueFull] at once. It does not refuse a call with [Replace] or [Latest], of
// which one waits. Zero or less, the default: no limit.
func MaxWaiters(n int) Option {
	return func(s settings) settings { s.waiters = n; return s }
}

// Strict makes a lost lock an error, [renewer.ErrLost], even though
// the function returned none. The result is returned beside it.
func Strict() Option {
	return func(s settings) settings { s.strict = true; return s }
}

// Operation names the work: a static name such as "transfer". Callers
// that wait for the lock read it, and telemetry shows it.
func Operation(name string) Option {
	named := renewer.Operation(name)
	return func(s settings) settings { s.operation, s.named = named, name; return s }
}

// RefusalExpected says that a refusal of this caller is nothing unusual, even
// after a wait, since it has a plan for that, such as to come back later: see
// [renewer.RefusalExpected]. It is for adapters. [Skip] needs it not.
func RefusalExpected() Option {
	return func(s settings) settings { s.expected = true; return s }
}

func (s settings) acquire(
	ctx context.Context, k *renewer.Keeper, name string,
) (*renewer.Lease, error) {
	name, limit := s.limitOf(name)
	special := limit != nil || s.manual != nil || s.maxHold != nil || s.expected ||
		s.contention == skip || s.newest != nil || s.rank != nil
	switch {
	case special && s.contention == wait:
		return k.Acquire(ctx, name, s.options(s.wait, limit)...)
	case special:
		return k.TryAcquire(ctx, name, s.options(s.within, limit)...)
	case s.contention != wait:
		return k.TryAcquire(ctx, name, renewer.MaxWait(s.within), s.operation)
	case s.waiters > 0:
		return k.Acquire(ctx, name, renewer.MaxWait(s.wait), s.operation,
			renewer.MaxWaiters(s.waiters))
	default: // the usual, with no option more than it needs
		return k.Acquire(ctx, name, renewer.MaxWait(s.wait), s.operation)
	}
}

// options are all those of an acquire of a limit; of a lock if that is nil.
func (s settings) options(most time.Duration, limit func(string) int) []renewer.Option {
	opts := []renewer.Option{s.operation, renewer.MaxWaiters(s.waiters), renewer.MaxWait(most)}
	if limit != nil {
		opts = append(opts, renewer.AtMost(limit))
	}
	for _, special := range []renewer.Option{s.manual, s.maxHold, s.newest, s.rank} {
		if special != nil {
			opts = append(opts, special)
		}
	}
	if s.expected || s.contention == skip {
		opts = append(opts, renewer.RefusalExpected())
	}
	return opts
}
