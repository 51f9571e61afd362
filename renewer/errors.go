package renewer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// The kinds of failure, told apart by errors.Is. A caller's own cancellation or
// deadline stays context.Canceled or context.DeadlineExceeded, with the
// context's cause below it. A deadline that ends a wait for another owner's
// lock is ErrBusy as well: look for the deadline first.
var (
	// ErrBusy means that another owner has the lock, or that the limit is full. errors.As with
	// *[Error] tells who.
	ErrBusy = errors.New("lockbeat: held by another owner")
	// ErrQueueFull comes with ErrBusy: see [Request].MaxWaiters.
	ErrQueueFull = errors.New("lockbeat: the queue is full")
	// ErrLimitClosed comes with ErrBusy: the limit is 0.
	ErrLimitClosed = errors.New("lockbeat: the limit is 0, closed")
	// ErrReplaced comes with [ErrBusy] if a newer call took the place of one that
	// waited, and with [ErrLost] if its operation ran: see [Newest].
	ErrReplaced = errors.New("lockbeat: a newer call has taken its place")
	// ErrLost means that a lease ended before its operation did. errors.As with
	// *[LostError] tells why.
	ErrLost = errors.New("lockbeat: lease lost")
	// ErrUnavailable means that the store could not be asked: it is not known
	// who has the lock.
	ErrUnavailable = store.ErrUnavailable
	// ErrRejected comes with ErrUnavailable: the request will be refused until
	// the server is changed.
	ErrRejected = store.ErrRejected
	// ErrOverloaded comes with ErrUnavailable: the server is up and refuses for
	// now.
	ErrOverloaded = store.ErrOverloaded
	// ErrShutdown means that the keeper is shutting down, or has.
	ErrShutdown = errors.New("lockbeat: keeper is shut down")
	// ErrName means that a lock's name is invalid: see [CheckName].
	ErrName = errors.New("lockbeat: invalid lock name")
	// ErrConfig means that a [Config] or [Request] is invalid; the text names
	// each field.
	ErrConfig = store.ErrConfig
)

// errNoAnswer is what a caller is told whose time ends before anybody knows who
// has the lock.
var errNoAnswer = errors.New("the store has not answered in time")

// Error is what methods of [Keeper] and [Lease] return when they fail, other
// than by a loss.
type Error struct {
	Op          string        // "acquire", "extend", "release", "read the record of", …
	Name        string        // don't show it to remote callers: it may carry their data
	Kind        error         // one of the Err… values of this package, or the context's own error
	Holder      store.Holder  // who had the lock when last seen; zero if unknown
	HeldFor     time.Duration // how long Holder had had it by then; 0 if unknown
	Limit, Held int           // how many may have a slot, and had one, if a limit was full
	RetryAfter  time.Duration // after that the lock lapses unless Holder renews it; 0 if unknown
	Waited      time.Duration // how long the call took
	Attempts    int           // questions to the store
	Err         error         // the cause below Kind, or nil

	held bool // another owner had the lock when the caller's deadline came
	own  bool // an operation of this process has had the lock since before the call
}

// Error says what happened to which lock, and who has it: see [ErrorText].
func (e *Error) Error() string { return e.text(e.Op+" "+quote(e.Name), error.Error) }

// nameless is Error without the lock's name.
func (e *Error) nameless() string { return e.text(e.Op+" a lock", ErrorText) }

func (e *Error) text(what string, textOf func(error) string) string {
	var b strings.Builder
	kind := strings.TrimPrefix(e.Kind.Error(), "lockbeat: ")
	switch {
	case errors.Is(e.Err, ErrLimitClosed), errors.Is(e.Err, ErrReplaced):
		kind = "refused"
	case e.Held > 0:
		kind = fmt.Sprintf("at its limit of %d, %d held", e.Limit, e.Held)
	}
	fmt.Fprintf(&b, "lockbeat: %s: %s", what, kind)
	if e.Waited >= time.Millisecond {
		fmt.Fprintf(&b, " after %v", e.Waited.Round(time.Millisecond))
	}
	if e.Holder != (store.Holder{}) {
		fmt.Fprintf(&b, "; last seen with %s", e.Holder)
		if e.HeldFor >= time.Millisecond {
			fmt.Fprintf(&b, ", for %v by then", e.HeldFor.Round(time.Millisecond))
		}
	}
	if e.own {
		b.WriteString(", by this process: was the context of that operation passed on? Or are " +
			"two locks taken in two orders?")
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; lapses in %v unless renewed", e.RetryAfter.Round(time.Millisecond))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", strings.TrimPrefix(textOf(e.Err), "lockbeat: "))
	}
	return b.String()
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	all := make([]error, 1, 3)
	all[0] = e.Kind
	if e.held {
		all = append(all, ErrBusy)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

// storeError is a store's error in a chain. A context error in it is that of
// the engine's request, not the caller's, and must not be taken for it; all
// else can be found.
type storeError struct{ error }

func (e storeError) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded &&
		errors.Is(e.error, target)
}

func (e storeError) As(target any) bool { return errors.As(e.error, target) }

// Nameless is its text without the names of locks: see ErrorText.
func (e storeError) Nameless() string { return ErrorText(e.error) }

// Reason is why a lease was lost.
type Reason uint8

// The reasons.
const (
	ReasonExpired   Reason = iota + 1 // no renewal was confirmed in time
	ReasonTaken                       // the key is gone, or another owner has it
	ReasonMaxHold                     // held for as long as it may: [Config.MaxHold]
	ReasonAbandoned                   // it ran on after its caller left: CancelGrace
	ReasonShutdown                    // [Keeper.Shutdown] ran out of time
	// ReasonBroken means that a person has broken it, by package inspect. The
	// lock stays held until the operation has returned, within its TTL.
	ReasonBroken
	// ReasonReplaced means that a newer call has taken its place: see [Newest].
	ReasonReplaced
)

// String returns the reason as telemetry shows it.
func (r Reason) String() string {
	switch r {
	case ReasonExpired:
		return "expired"
	case ReasonTaken:
		return "taken"
	case ReasonMaxHold:
		return "max_hold"
	case ReasonAbandoned:
		return "abandoned"
	case ReasonShutdown:
		return "shutdown"
	case ReasonBroken:
		return "broken"
	case ReasonReplaced:
		return "replaced"
	default:
		return "unknown"
	}
}

// explain is the reason in a sentence's end.
func (r Reason) explain() string {
	switch r {
	case ReasonExpired:
		return "no renewal was confirmed in time"
	case ReasonTaken:
		return "the store says that it is not ours any more"
	case ReasonMaxHold:
		return "it was held for as long as Config.MaxHold allows"
	case ReasonAbandoned:
		return "the operation ran on past Config.CancelGrace after its caller had gone"
	case ReasonShutdown:
		return "the keeper's shutdown ran out of time"
	case ReasonBroken:
		return "it was broken"
	case ReasonReplaced:
		return "a newer call has taken its place"
	default:
		return "for an unknown reason"
	}
}

// What the store has found in place of a lease: see LostError.Found.
const (
	foundDeleted     = "deleted"
	foundOverwritten = "overwritten"
	foundOwner       = "owner"
)

// LostError is the cause of a lease's context once the lease is lost. It is
// [ErrLost] to errors.Is.
type LostError struct {
	Name   string // don't show it to remote callers: it may carry their data
	Reason Reason
	// Found is what the store found in its place, if ReasonTaken: "deleted"
	// (evicted, lapsed), "overwritten" by another program, "owner" if another
	// has the lock, "" if unknown.
	Found  string
	Holder store.Holder // who has the lock now, if Found is "owner"; zero if unknown
	// By and Why say who has broken the lease, if ReasonBroken; By is the newer
	// call's process if ReasonReplaced.
	By, Why string
	Fence   int64
	Left    time.Duration // for so long no other owner could have the lock yet: the notice given
	Err     error         // of the last renewal, if that is why, or nil

	maxHold time.Duration // of the call, when that ended the lease
	forced  bool          // it was broken by force: the name was freed at once
}

// Error says which lease was lost, and why: see [ErrorText].
func (e *LostError) Error() string { return e.text("lease on "+quote(e.Name), error.Error) }

// nameless is Error without the lock's name.
func (e *LostError) nameless() string { return e.text("lease", ErrorText) }

func (e *LostError) text(what string, textOf func(error) string) string {
	s := fmt.Sprintf("lockbeat: %s lost: %s", what, e.explain())
	if e.Err != nil {
		s += ": " + textOf(e.Err)
	}
	return s
}

// explain is why, in a sentence's end.
func (e *LostError) explain() string {
	switch {
	case e.Found == foundDeleted:
		return "the store has no key for it any more"
	case e.Found == foundOverwritten:
		return "another program has written over its key"
	case e.Found == foundOwner && e.Holder != (store.Holder{}):
		return "another owner has the lock: " + e.Holder.String()
	case e.Found == foundOwner:
		return "another owner has the lock"
	case e.Reason == ReasonBroken && e.By != "":
		how := "it was broken by "
		if e.forced {
			how = "it was broken, by force, by "
		}
		return fmt.Sprintf("%s%s: %s", how, e.By, e.Why)
	case e.Reason == ReasonReplaced && e.By != "":
		return e.Reason.explain() + ": " + e.By
	case e.maxHold != 0:
		return fmt.Sprintf("it was held for %v, as long as the option MaxHold of its call allows",
			e.maxHold)
	default:
		return e.Reason.explain()
	}
}

// gone reports whether the store has said that the key is not the owner's any
// more.
func (e *LostError) gone() bool { return e.Reason == ReasonTaken || e.forced }

// Unwrap gives ErrLost, ErrReplaced if that is why, and the last renewal's
// error but for a context's.
func (e *LostError) Unwrap() []error {
	errs := []error{ErrLost}
	if e.Reason == ReasonReplaced {
		errs = append(errs, ErrReplaced)
	}
	if e.Err != nil {
		errs = append(errs, storeError{e.Err})
	}
	return errs
}

// quote makes a name fit for a message: without control bytes, and short.
func quote(name string) string {
	const most = 80
	if len(name) > most {
		return fmt.Sprintf("%q… (%d bytes)", name[:most], len(name))
	}
	return fmt.Sprintf("%q", name)
}

// ErrorText returns the text of an error without the names of locks, for logs;
// "" for nil. It knows errors of this package, also in a chain, and those with
// a method Nameless() string, which returns that text.
func ErrorText(err error) string {
	switch e := err.(type) { //nolint:errorlint // the errors below are looked at one by one
	case nil:
		return ""
	case interface{ nameless() string }: // of this package
		return e.nameless()
	case interface{ Nameless() string }:
		return e.Nameless()
	}
	text := err.Error()
	for _, below := range unwrapped(err) {
		whole, nameless := below.Error(), ErrorText(below)
		switch {
		case whole == nameless:
		case strings.Contains(text, whole):
			text = strings.ReplaceAll(text, whole, nameless)
		default: // it may be in there in other words
			return nameless
		}
	}
	return text
}

// unwrapped are the errors right below one.
func unwrapped(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if below := errors.Unwrap(err); below != nil {
		return []error{below}
	}
	return nil
}
