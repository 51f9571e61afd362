package lockmw

import (
	"context"
	"errors"
	"math"
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
	newest     renewer.Newest
	rank       int64 // 0: none
	wait       time.Duration
	within     time.Duration // 0: the keeper's RequestTimeout
	inTime     bool          // wait and within end before the context's deadline
	waiters    int
	limit      func(name string) int // nil: names are those of locks, unless made by Limit
	share      int                   // see LocalShare
	shared     bool                  // it was given
	strict     bool
	operation  string
	expected   bool // see RefusalExpected
	least      time.Duration
	manual     time.Duration // 0: with a heartbeat
	maxHold    time.Duration // 0: the keeper's
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
	s.contention, s.newest = how, renewer.NewestOff
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
	if d <= 0 {
		d = -1 // refused
	}
	return func(s settings) settings { s.manual = d; return s }
}

// MaxHold bounds how long the lock is held, whatever the function does, in place of
// renewer.Config.MaxHold: d from when it is taken, after which the function is told that it is
// lost. It may be longer or shorter. Zero or less: no bound. Others have the lock when the function
// has returned, or one TTL later at the latest; with [Manual] or [HoldAtLeast] when that time is
// over. With [Keys] it bounds each of the locks. An inner call has no lock of its own, so the outer
// call's bound stays. If d is less than one renewer.Config.Heartbeat, the call is refused with
// [renewer.ErrConfig]. Default: the keeper's bound; for [RunWhileHeld] none.
func MaxHold(d time.Duration) Option {
	if d <= 0 {
		d = math.MaxInt64
	}
	return func(s settings) settings { s.maxHold = d; return s }
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
	return func(s settings) settings { s.operation = name; return s }
}

// RefusalExpected says that a refusal of this caller is nothing unusual, even
// after a wait, since it has a plan for that, such as to come back later: see
// [renewer.Request]. It is for adapters. [Skip] needs it not.
func RefusalExpected() Option {
	return func(s settings) settings { s.expected = true; return s }
}

func (s settings) acquire(
	ctx context.Context, k *renewer.Keeper, name string,
) (*renewer.Lease, error) {
	most := s.wait
	if s.contention != wait {
		most = s.within
	}
	return k.Acquire(ctx, s.request(name, most))
}

// request is what the engine is asked for, for so long at most.
func (s settings) request(name string, most time.Duration) renewer.Request {
	name, limit := s.limitOf(name)
	return renewer.Request{
		Name: name, Limit: limit, Operation: s.operation, MaxWait: most,
		Try: s.contention != wait, MaxWaiters: max(s.waiters, 0), MaxHold: s.maxHold,
		Manual: s.manual, Newest: s.newest, Rank: s.rank,
		RefusalExpected: s.expected || s.contention == skip,
	}
}
