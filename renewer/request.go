package renewer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Request is what a caller wants of a lock. Only Name is required: the zero
// value of each other field is its default. A number or a time below 0 is
// [ErrConfig].
type Request struct {
	Name string // of the lock or limit: see CheckName
	// Limit makes it a limit, of which the lease is a slot: at most so many
	// have one at once, over all processes. Nil: a lock. A lock and a limit of
	// one name are two things.
	//
	// It is called before each question to the store, and must return at once.
	// The number is kept nowhere: processes that disagree admit by their own. A
	// lower one ends no slot. 0: [ErrBusy] and [ErrLimitClosed]. A store
	// without limits gives [ErrConfig].
	Limit     func() int
	Operation string // of the work, static, such as "transfer": for refused callers and telemetry
	// MaxWait bounds the wait, in line and for the store; then [ErrBusy], or
	// [ErrUnavailable] if the store could not be asked. 0: as long as the
	// context lives.
	MaxWait time.Duration
	// Try asks once and does not wait in line: [ErrBusy] if another owner has
	// the lock, [ErrUnavailable] without an answer in [Config.RequestTimeout],
	// or MaxWait if shorter. While this process frees the name it waits for
	// that first, for as long at most.
	Try bool
	// MaxWaiters refuses the call, with [ErrBusy] and [ErrQueueFull], if as
	// many callers of this keeper wait for the name already. Not with Newest.
	// 0: any number.
	MaxWaiters int
	// MaxHold takes the place of [Config.MaxHold]: math.MaxInt64 is no bound;
	// else it is at least one [Config.Heartbeat], or [ErrConfig]. 0:
	// Config.MaxHold, or none if LongRunning.
	MaxHold time.Duration
	// Manual takes the lock for so long without a heartbeat, less the clock
	// drift and [Config.Margin], which it must exceed, or [ErrConfig]. The
	// operation extends it ([Lease.Extend]) or loses it. 0: with a heartbeat.
	Manual time.Duration
	Newest Newest // what becomes of older calls for the name
	// Rank is how new the work is: a version, an ID, or when it was ordered. A
	// call of a lower rank than one that has had the lock gets [ErrBusy] and
	// [ErrReplaced], though the lock is free; one of the same rank does not.
	// Give one to all calls for a name: one without goes by when it was made.
	// 0: none.
	//
	// It counts from when the call has the lock, for [contract.RankTTL] (24 h),
	// and takes about 200 bytes of the store's memory. It needs a
	// [contract.Replacer], and excludes Limit: else [ErrConfig].
	Rank int64
	// LongRunning is for an operation that goes on for as long as it may, as a
	// leader's does: the call waits for a store however long it is away, and
	// Config.MaxHold does not end the lease.
	LongRunning bool
	// RefusalExpected tells observers that the caller has a plan for a refusal:
	// logs show it at Info, and no alert counts it.
	RefusalExpected bool
	// Nested says that work which holds another lock of the keeper asks:
	// Shutdown, which waits for that work, lets it have this one too.
	Nested bool
	// StandBy tells observers that the caller only waits for the end of
	// another's work: nothing but the oldest wait shows it. It waits for a
	// store like LongRunning.
	StandBy bool
}

// Newest says that of the calls for one name none but the newest waits: that of
// the greatest [Request].Rank, or else the one made last, as far as the store
// can tell (some milliseconds). One made before another that has had the lock
// in the last minute is refused.
//
// It needs a [contract.Replacer], and excludes Limit and Try: else [ErrConfig].
type Newest uint8

const (
	// NewestOff waits beside all others.
	NewestOff Newest = iota
	// NewestWaits takes the place of an older such call that waits, in any
	// process, which gets [ErrBusy] and [ErrReplaced].
	NewestWaits
	// NewestReplaces also ends the operation that has the lock, by
	// [ErrReplaced], and has it when that has returned, or its TTL is over. An
	// operation that was called otherwise hears of it when its lease is a
	// second old.
	NewestReplaces
)

// unbounded is no MaxHold.
const unbounded time.Duration = -1

// ownMaxHold is the bound of a call that does not go by [Config.MaxHold],
// negative for none; 0 for one that does.
func (r *Request) ownMaxHold() time.Duration {
	if r.MaxHold == math.MaxInt64 || r.MaxHold == 0 && r.LongRunning {
		return unbounded
	}
	return r.MaxHold
}

// givesWay reports whether newer calls may overtake the call.
func (r *Request) givesWay() bool { return r.Newest != NewestOff || r.Rank != 0 }

// outlastsOutages reports whether the call waits for the store, however long
// that is away.
func (r *Request) outlastsOutages() bool { return (r.LongRunning || r.StandBy) && !r.Try }

// Check refuses what no Acquire can have, without a question to the store, when
// a program starts: [ErrConfig], or [ErrName] if r has a name. It calls
// r.Limit.
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
	if r.givesWay() {
		if err := k.checkNewness(r); err != nil {
			return err
		}
	}
	if r.MaxHold != 0 {
		return k.cfg.checkMaxHold(r.MaxHold)
	}
	return nil
}

// checkManual refuses a time in which nothing is left for the operation.
func (k *Keeper) checkManual(d time.Duration) error {
	least := lease.Validity(d, k.cfg.ClockDrift) - k.cfg.Margin
	if d < time.Millisecond || least <= 0 {
		return fmt.Errorf("%v is too short a time to hold a lock for: clock drift, 1ms and "+
			"Config.Margin (%v) leave nothing of it", d, k.cfg.Margin)
	}
	return nil
}

// checkNewness refuses Newest and Rank where they can't work. Package lockmw
// calls them by the names of its options.
func (k *Keeper) checkNewness(r *Request) error {
	const what = "Newest, Rank (Replace, Latest, Ranked)"
	_, ok := k.store.(contract.Replacer)
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

// reservedPrefix begins the names under which stores keep notes of their own,
// such as the membership of a quorum. No caller can lock one: a name is often
// chosen by a remote client. A store gives them to its nodes directly.
const reservedPrefix = "\x00lockbeat"

// CheckName returns an error that is [ErrName] if name is empty, longer than
// [store.MaxName], or begins with "\x00lockbeat". Any other bytes will do.
func CheckName(name string) error {
	if fault := nameFault(name); fault != nil {
		return fmt.Errorf("%w: %w", ErrName, fault)
	}
	return nil
}

func nameFault(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty, or made of an empty part; name what the lock protects, " +
			"such as \"order:42\"")
	case len(name) > store.MaxName:
		return fmt.Errorf("it has %d bytes, above the limit of %d; hash what makes it long",
			len(name), store.MaxName)
	case strings.HasPrefix(name, reservedPrefix):
		return fmt.Errorf("it begins with %q, which stores keep for themselves; begin names with "+
			"a prefix of your own, such as \"order:\"",
			reservedPrefix)
	default:
		return nil
	}
}

// Names of locks may carry personal data: a customer's number, an e-mail
// address. Errors name the lock to the program. Logs and spans show a hash of
// the name, and texts of errors without it: see [ErrorText].

// hashBytes is how much of the hash is shown: two of a billion names share one
// with a chance of 3 %.
const hashBytes = 8

// HashName returns what logs and spans show in place of a lock's name: the
// first 64 bits of its SHA-256, as 16 hexadecimal digits:
//
//	printf %s account:42 | sha256sum | cut -c1-16
//
// Names that can be listed can be found out so, but for a secret, shared by all
// processes: then it is an HMAC-SHA256.
func HashName(name string, secret []byte) string {
	if len(secret) == 0 {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:hashBytes])
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(name)) // never fails: see hash.Hash
	return hex.EncodeToString(mac.Sum(nil)[:hashBytes])
}
