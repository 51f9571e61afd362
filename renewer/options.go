package renewer

import (
	"fmt"
	"time"
)

// Option applies to one Acquire or TryAcquire.
type Option func(request) request

type request struct {
	label     *label                // nil: none
	maxWait   time.Duration         // 0: as long as the context lives
	most      int                   // waiters; 0: any number
	manual    time.Duration         // the TTL without a heartbeat; 0: with one
	newest    newest                // see Latest
	rank      int64                 // see Rank; 0: none
	ranked    bool                  // it was given
	maxHold   time.Duration         // 0: Config.MaxHold; negative: no bound
	limit     func(name string) int // how many may have it at once; nil: one, a lock
	try       bool
	heartless bool
	endless   bool // see LongRunning
	expected  bool // see RefusalExpected
	standBy   bool // see StandBy
}

// Operation names what the lock is taken for: a static name of low cardinality, such as
// "transfer" or a task's type. A caller who is refused meanwhile reads it, and telemetry shows it.
func Operation(name string) Option {
	named := &label{operation: name} // by all leases taken with this option
	return func(r request) request { r.label = named; return r }
}

// MaxWait bounds how long Acquire waits, in the queue and for the store, to d. When it runs out the
// error is [ErrBusy], or [ErrUnavailable] if the store could not be asked. Zero or less: no
// waiting, as with TryAcquire. Without this option Acquire waits for as long as its context lives.
func MaxWait(d time.Duration) Option {
	return func(r request) request { r.maxWait, r.try = d, d <= 0; return r }
}

// MaxWaiters refuses the call if n callers of this keeper wait for the
// name already, behind the one who has the lock or asks the store for it: an error
// that is [ErrBusy] and [ErrQueueFull]. It bounds the memory and the waiting time
// that a popular name can cost a server. It does not refuse a call with [Latest] or [Replace], of
// which one waits. Zero or less, the default: no limit.
func MaxWaiters(n int) Option {
	return func(r request) request { r.most = max(n, 0); return r }
}

// AtMost makes the call take a slot of a limit instead of a lock: at most as many have one at once,
// over all processes, as limit returns for the name. A slot is a [Lease] like any other, with a
// heartbeat, a loss and a fencing token of its own. A limit and a lock of one name are two things.
//
// The number is the caller's own, and kept nowhere: limit is called before each question to the
// store, and must return at once. A lower number ends no slot; those who wait hear of a higher one
// when somebody next asks, or by their own poll. 0 closes the limit: the error is [ErrBusy] and
// [ErrLimitClosed], without a question. Below 0 it is [ErrConfig], as it is where the store has no
// limits. Processes that disagree admit by their own numbers; see [AcquireEnd].Held.
func AtMost(limit func(name string) int) Option {
	if limit == nil {
		limit = func(string) int { return -1 }
	}
	return func(r request) request { r.limit = limit; return r }
}

// Manual takes the lock for d without a heartbeat: the operation extends it itself, by
// [Lease.Extend], or else it is lost, less the clock drift and [Config.Margin], when d
// is over. It is for work that proves between its steps that it makes progress, so that
// one that hangs gives the lock up. d must exceed these; else the error is [ErrConfig].
func Manual(d time.Duration) Option {
	return func(r request) request {
		r.manual = d.Truncate(time.Millisecond)
		r.heartless = true
		return r
	}
}

// MaxHold ends the lease d after it was acquired, or handed over, whatever the operation does. It
// takes the place of [Config.MaxHold] for this call, and may be longer or shorter. Zero or less: no
// bound. If d is less than one [Config.Heartbeat], the error is [ErrConfig], and nothing was asked.
// Default: Config.MaxHold, or no bound with [LongRunning].
func MaxHold(d time.Duration) Option {
	if d <= 0 {
		d = unbounded
	}
	return func(r request) request { r.maxHold = d; return r }
}

// unbounded is no MaxHold.
const unbounded time.Duration = -1

// ownMaxHold is the bound of a call that does not go by [Config.MaxHold]; 0 for one that does.
func (r *request) ownMaxHold() time.Duration {
	if r.maxHold == 0 && r.endless {
		return unbounded
	}
	return r.maxHold
}

// LongRunning says that the operation is no piece of work but goes on for as long as it may, as a
// leader's does. [Config.MaxHold] does not end its lease; [MaxHold] does, if it is given too. And
// the call waits for a store that is away, longer than [Config.FailOver].
// Observers are told, by [AcquireStart].LongRunning.
func LongRunning() Option {
	return func(r request) request { r.endless = true; return r }
}

// RefusalExpected tells observers, by [AcquireStart].RefusalExpected, that the caller has a plan
// for when another owner has the lock, such as to come back later: logs show the refusal at Info
// rather than Warn, and no alert counts it. It changes nothing else.
func RefusalExpected() Option {
	return func(r request) request { r.expected = true; return r }
}

// StandBy tells observers, by [AcquireStart].StandBy, that the caller does no work under the lock,
// but waits for the end of another's, and frees it at once: logs show that at Debug, no span does,
// and no metric but that of the oldest wait. Like one with [LongRunning] it waits for a store that
// is away. It is for adapters.
func StandBy() Option {
	return func(r request) request { r.standBy = true; return r }
}

// checkOptions refuses what can't work, before anything is asked.
func (k *Keeper) checkOptions(r *request) error {
	if r.heartless {
		if err := k.checkManual(r.manual); err != nil {
			return err
		}
	}
	if err := k.checkKind(r); err != nil {
		return err
	}
	return k.cfg.checkMaxHold(r.maxHold)
}

// CheckMaxHold is for adapters, which refuse an option when the program starts: the error is
// [ErrConfig] if no call of k can have d as its [MaxHold].
func (k *Keeper) CheckMaxHold(d time.Duration) error {
	if err := k.cfg.checkMaxHold(d); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// checkManual refuses a time in which nothing is left for the operation.
func (k *Keeper) checkManual(d time.Duration) error {
	if least := validity(d, k.cfg.ClockDrift) - k.cfg.Margin; d < time.Millisecond || least <= 0 {
		return fmt.Errorf("%v is too short a time to hold a lock for: clock drift, 1ms and "+
			"Config.Margin (%v) leave nothing of it", d, k.cfg.Margin)
	}
	return nil
}
