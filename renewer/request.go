package renewer

import (
	"fmt"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Request is what a caller wants of a lock. Only Name is required: the zero value of each other
// field is its default. Numbers and times below 0 are [ErrConfig].
type Request struct {
	// Name is that of the lock, or of the limit: see [CheckName].
	Name string
	// Limit makes it a limit of that name, of which a limit's lease is a slot: as many callers,
	// over all processes, may have one at once as Limit returns. Nil: a lock. A lock and a limit of
	// one name are two things.
	//
	// The number is the caller's own, and kept nowhere: Limit is called before each question to the
	// store, and must return at once. A lower one ends no slot; those who wait hear of a higher one
	// when any caller next asks, or by their own poll. 0 closes the limit: [ErrBusy] and
	// [ErrLimitClosed]. A store without limits gives [ErrConfig]. Processes that disagree admit by
	// their own numbers; see [AcquireEnd].Held.
	Limit func() int
	// Operation is what the lock is taken for: a static name of low cardinality, such as
	// "transfer". Callers who are refused meanwhile read it, and telemetry shows it.
	Operation string
	// MaxWait bounds the wait, in line and for the store: then [ErrBusy], or [ErrUnavailable] if
	// the store could not be asked. 0: for as long as the context lives.
	MaxWait time.Duration
	// Try asks once, and does not wait in line: [ErrBusy] if another owner has the lock. It waits
	// for an answer for [Config.RequestTimeout], or for MaxWait if that is shorter, then
	// [ErrUnavailable]; and before that as long at most while this process frees the name.
	Try bool
	// MaxWaiters refuses the call, with [ErrBusy] and [ErrQueueFull], if as many callers of this
	// keeper wait for the name already. It does not refuse one with Newest. 0: any number.
	MaxWaiters int
	// MaxHold ends the lease so long after it was acquired, or handed over, in place of
	// [Config.MaxHold]; math.MaxInt64: no bound. At least one [Config.Heartbeat], else [ErrConfig].
	// 0: Config.MaxHold, or no bound if LongRunning.
	MaxHold time.Duration
	// Manual takes the lock for so long without a heartbeat: the operation extends it itself, by
	// [Lease.Extend], or else loses it then, less the clock drift and [Config.Margin], which it
	// must exceed, else [ErrConfig]. So an operation that hangs gives the lock up. 0: with a
	// heartbeat.
	Manual time.Duration
	// Newest says what becomes of older calls for the name. Default [NewestOff].
	Newest Newest
	// Rank is how new the work is: a version of what it works on, an ID, or when it was ordered. A
	// call of a lower rank than one that has had the lock is [ErrBusy] and [ErrReplaced], though
	// the lock is free; one of the same rank is the same work again, and is not. With Newest the
	// greater rank is the newer call, whoever comes first. A call without one goes by when it was
	// made: give one to all of a name. 0: none.
	//
	// A rank counts from when the call has the lock, though the operation fails, for
	// [store.RankTTL] (24 h), and takes about 200 bytes of the store's memory, by name. Like Newest
	// it is for locks, in a store that is a [store.Replacer]; else [ErrConfig].
	Rank int64
	// LongRunning says that the operation goes on for as long as it may, as a leader's does: the
	// call waits for a store that is away for longer than [Config.FailOver], and Config.MaxHold
	// does not end the lease. Observers are told.
	LongRunning bool
	// RefusalExpected tells observers that the caller has a plan for when another owner has the
	// lock: logs show the refusal at Info rather than Warn, and no alert counts it.
	RefusalExpected bool
	// StandBy tells observers that the caller does no work under the lock, but waits for the end of
	// another's, and frees it at once: nothing but the oldest wait shows it. Like one with
	// LongRunning it waits for a store that is away.
	StandBy bool
}

// Newest says whether of the calls for one name that say so none but the newest waits. The newest
// is that of the greatest [Request].Rank, or else the one made last, as far as the store can tell:
// calls reach it some milliseconds after they are made. One that was made before another that has
// had the lock in the last minute is refused as older.
//
// Such a call is for a lock, in a store that is a [store.Replacer], and has to wait: with Limit or
// Try, or another store, it is [ErrConfig].
type Newest uint8

const (
	// NewestOff waits beside all others.
	NewestOff Newest = iota
	// NewestWaits takes the place of a call with NewestWaits or NewestReplaces that waits for the
	// name, in any process, whose error is [ErrBusy] and [ErrReplaced] then: one operation runs,
	// and one call waits.
	NewestWaits
	// NewestReplaces is NewestWaits, and ends the operation that has the lock, by a [LostError]
	// that is [ErrReplaced]. The call has the lock when that operation has returned, or its TTL is
	// over. A lease that was taken otherwise hears of it when it is a second old, if it is younger,
	// and at its next heartbeat if the message is lost.
	NewestReplaces
)

// unbounded is no MaxHold.
const unbounded time.Duration = -1

// ownMaxHold is the bound of a call that does not go by [Config.MaxHold], negative for none; 0 for
// one that does.
func (r *Request) ownMaxHold() time.Duration {
	if r.MaxHold == math.MaxInt64 || r.MaxHold == 0 && r.LongRunning {
		return unbounded
	}
	return r.MaxHold
}

// Check refuses what no call of k can have, without asking the store, for adapters, whose options
// are refused when the program starts: the error is [ErrConfig], or [ErrName] if r has a name. It
// calls r.Limit.
func (k *Keeper) Check(r Request) error {
	if r.Name != "" {
		if err := CheckName(r.Name); err != nil {
			return err
		}
	}
	err := k.checkRequest(&r)
	if err == nil && r.Limit != nil {
		err = checkLimit(r.Limit())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// checkRequest refuses what can't work, before anything is asked.
func (k *Keeper) checkRequest(r *Request) error {
	switch {
	case r.MaxWait < 0:
		return fmt.Errorf("MaxWait is %v: give 0 to wait without a bound, or Try not to wait",
			r.MaxWait)
	case r.MaxWaiters < 0:
		return fmt.Errorf("MaxWaiters is %d: give 0 for any number", r.MaxWaiters)
	case r.MaxHold < 0:
		return fmt.Errorf("MaxHold is %v: give 0 for Config.MaxHold, or math.MaxInt64 "+
			"(lockmw.NoBound) for no bound", r.MaxHold)
	}
	if r.Manual != 0 {
		if err := k.checkManual(r.Manual); err != nil {
			return err
		}
	}
	if err := k.checkNewness(r); err != nil {
		return err
	}
	return k.cfg.checkMaxHold(r.MaxHold)
}

// checkManual refuses a time in which nothing is left for the operation.
func (k *Keeper) checkManual(d time.Duration) error {
	if least := validity(d, k.cfg.ClockDrift) - k.cfg.Margin; d < time.Millisecond || least <= 0 {
		return fmt.Errorf("%v is too short a time to hold a lock for: clock drift, 1ms and "+
			"Config.Margin (%v) leave nothing of it", d, k.cfg.Margin)
	}
	return nil
}

// checkNewness refuses Newest and Rank where they can't work. Package lockmw calls them by the
// names of its options.
func (k *Keeper) checkNewness(r *Request) error {
	if r.Newest == NewestOff && r.Rank == 0 {
		return nil
	}
	const what = "Newest, Rank (Replace, Latest, Ranked)"
	_, ok := k.store.(store.Replacer)
	switch {
	case r.Newest > NewestReplaces:
		return fmt.Errorf("Newest is %d: there is no such one", r.Newest)
	case r.Limit != nil:
		return fmt.Errorf("%s: they are for locks, and not for limits", what)
	case !ok:
		return fmt.Errorf("%s: a %T does not know which call is the newest: use one of redisstore "+
			"or memory", what, k.store)
	case r.Rank < 0:
		return fmt.Errorf("rank of %d: give 1 or more, or 0 for none", r.Rank)
	case r.Try && r.Newest != NewestOff:
		return fmt.Errorf("%s: the call must wait: leave Try out", what)
	default:
		return nil
	}
}

// checkLimit refuses a limit that none can be.
func checkLimit(n int) error {
	if n < 0 {
		return fmt.Errorf("limit of %d: give 0 to close it, or how many may run", n)
	}
	return nil
}
