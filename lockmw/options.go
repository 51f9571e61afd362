package lockmw

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/renewer"
)

// NoBound is no bound, given to an option or a field that bounds something.
const NoBound = option.NoBound

// DefaultWait is how long a caller waits in line unless told otherwise: 10 s.
const DefaultWait = scope.DefaultWait

// ErrSkipped means that another caller has the lock and that the function was
// not run: see [Skip].
var ErrSkipped = scope.ErrSkipped

// Option is for [Do], [Run], [Wrap] and [WrapRun]. Each option is declared
// once, below the name of those that fit the same places, and compiles in these
// alone:
//
//	AnyOption      functions, jobs, requests, calls, package once, schedules (cronmw), Lead
//	WaitOption     functions, jobs, requests, calls, package once
//	HandlerOption  functions, jobs, requests, calls
//	SkipOption     functions, jobs, requests
//	KeepOption     functions, Lead
//	FuncOption     functions
//
// Jobs are those of packages jobs, asynqmw and rivermw, requests those of
// httpmw and ginmw, calls those of grpcmw. Of two that contradict each other
// the later one counts. An invalid one is refused by a panic where a handler is
// wrapped, and with [renewer.ErrConfig] by [Do], [Run] and [Lead].
//
// What depends on the argument is no option but part of the name: see [Limit]
// and [Ranked].
type Option interface {
	ForFunc(option.Settings) option.Settings
}

// AnyOption fits every place that takes a lock.
type AnyOption = option.Any

// WaitOption fits where a caller waits: functions, jobs, requests, calls, and
// work done once.
type WaitOption = option.Wait

// HandlerOption fits around functions, jobs, requests and calls.
type HandlerOption = option.Handler

// SkipOption fits where "done by another" can be said: functions, jobs,
// requests.
type SkipOption = option.Skip

// KeepOption fits functions and [Lead].
type KeepOption = option.Keep

// FuncOption fits functions.
type FuncOption = option.Func

// LeadOption is for [Lead].
type LeadOption interface {
	ForLead(option.Settings) option.Settings
}

// Wait waits in line for at most d, and for a store that is away meanwhile;
// then the error is [renewer.ErrBusy] or [renewer.ErrUnavailable]. Several
// locks are given back first, which takes one or two
// renewer.Config.RequestTimeout more if the store does not answer. Default:
// [DefaultWait]; jobs 1 s, in their worker; once [NoBound].
func Wait(d time.Duration) WaitOption {
	return WaitOption{Set: func(s option.Settings) option.Settings {
		if d <= 0 {
			return s.Invalid("Wait(%v): give how long to wait, or take Refuse", d)
		}
		s.Contention, s.Wait = option.Waits, d
		return s
	}}
}

// Refuse does not wait: [renewer.ErrBusy] if another caller has the lock. HTTP
// answers 409, of a limit 429; a job goes back to its queue at once, uncounted.
func Refuse() WaitOption {
	return WaitOption{Set: func(s option.Settings) option.Settings {
		return s.NoWait(option.Refuses)
	}}
}

// MaxWaiters bounds how many callers of this process wait in line for one name,
// behind the one that has the lock or asks for it; one more gets
// [renewer.ErrBusy] with [renewer.ErrQueueFull] at once. Calls with [Replace]
// and [Latest] are not counted: of them one waits. Default: 100 for requests
// and calls, an eighth of the workers for jobs, and otherwise [NoBound].
func MaxWaiters(n int64) WaitOption {
	return WaitOption{Set: func(s option.Settings) option.Settings {
		if n < 1 {
			return s.Invalid("MaxWaiters(%d): give 1 or more, or take Refuse", n)
		}
		s.Waiters = n
		return s
	}}
}

// Skip does not wait, and leaves the work to the caller that has the lock: the
// error is [ErrSkipped]. A job is done, unrun; HTTP answers 204.
func Skip() SkipOption {
	return SkipOption{Set: func(s option.Settings) option.Settings {
		return s.NoWait(option.Skips)
	}}
}

// Replace has the newest call win, in any process, for work of which the last
// request alone counts. It takes the place of a call with Replace or [Latest]
// that waits, whose error is [renewer.ErrBusy] and [renewer.ErrReplaced], and
// ends the operation that has the lock, whose context ends with a
// [renewer.LostError] that is [renewer.ErrReplaced]. It has the lock when that
// operation has returned, or its TTL has ended: one that does not heed its
// context delays it, up to [Wait].
//
// The newest is the call of the greatest rank ([Ranked]); without ranks, the
// job that was enqueued last, and otherwise the call that was made last, to
// some milliseconds and for a minute.
//
// It is for one lock: for a [Limit], several names, or by package quorum the
// call is refused with [renewer.ErrConfig].
func Replace() HandlerOption { return newest(renewer.NewestReplaces) }

// Latest lets the operation that has the lock come to its end, and has the
// newest call wait as the only one: for work that is to be done once more after
// the last change. Otherwise it is like [Replace].
func Latest() HandlerOption { return newest(renewer.NewestWaits) }

func newest(kind renewer.Newest) HandlerOption {
	return HandlerOption{Set: func(s option.Settings) option.Settings {
		s.Contention, s.Newest = option.Waits, kind
		return s
	}}
}

// Strict makes a lost lock an error, [renewer.ErrLost], even though the
// function returned none; the result is returned beside it. HTTP breaks the
// answer off if some of it has been written.
func Strict() HandlerOption {
	return HandlerOption{Set: func(s option.Settings) option.Settings { s.Strict = true; return s }}
}

// LocalShare has this process admit calls by itself while the store is away: n
// at once of each limit, one at a time of each lock; further ones are refused
// with [renewer.ErrUnavailable]. It is for work to which an outage does more
// harm than an overlap: other processes do not know of these calls. [Fence] is
// 0 and [Held] is false in them, and the observer is told of each.
//
// The store is away when it was asked and has answered nothing for
// renewer.Config.FailOver; until then calls wait. With the first answer the
// share is over, and what runs by it goes on to its end. Default: an outage
// refuses.
func LocalShare(n int) HandlerOption {
	return HandlerOption{Set: func(s option.Settings) option.Settings {
		if n < 1 {
			return s.Invalid("LocalShare(%d): give how many calls this process may admit by "+
				"itself", n)
		}
		s.Share = n
		return s
	}}
}

// MaxHold bounds how long the lock is held, from when it is taken, in place of
// renewer.Config.MaxHold; [NoBound] is none. Then the function's context ends
// with [renewer.ErrLost], and others have the lock when it has returned, or one
// TTL later at the latest. Less than a renewer.Config.Heartbeat is invalid. A
// call inside of the lock stays within the outer call's bound. Default: the
// keeper's; for [Lead] none.
func MaxHold(d time.Duration) AnyOption {
	return AnyOption{Set: func(s option.Settings) option.Settings {
		if d <= 0 {
			return s.Invalid("MaxHold(%v): give how long the lock may be held, or NoBound", d)
		}
		s.MaxHold = d
		return s
	}}
}

// Operation names the work: a static name such as "transfer", that callers in
// line read and telemetry shows. Default: the route, method, kind of job or
// job's name; "" of a function.
func Operation(name string) AnyOption {
	return AnyOption{Set: func(s option.Settings) option.Settings {
		s.Operation = name
		return s
	}}
}

// HoldAtLeast keeps the lock for d after the function began, even if it returns
// earlier: for work that must not be done again so soon, by a process whose
// clock is behind. Default: the lock is free when the function has returned.
func HoldAtLeast(d time.Duration) KeepOption {
	return KeepOption{Set: func(s option.Settings) option.Settings {
		if d <= 0 {
			return s.Invalid("HoldAtLeast(%v): give for how long to keep the lock", d)
		}
		s.Least = d
		return s
	}}
}

// Manual takes the lock for d without a heartbeat: the function extends it
// itself between its steps, by [Extend], or loses it when d is over, less clock
// drift and renewer.Config.Margin. So a function that hangs gives its lock up.
// What the store loses meanwhile only Extend finds.
func Manual(d time.Duration) FuncOption {
	return FuncOption{Set: func(s option.Settings) option.Settings {
		if d <= 0 {
			return s.Invalid("Manual(%v): give for how long to take the lock", d)
		}
		s.Manual = d
		return s
	}}
}
