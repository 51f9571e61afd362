package grpcmw

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// Option is a rule ([ForMethod], [ForMetadata], [ForWholeMethod]), or says what to do for all
// methods that have one. Of two that contradict each other the later one counts; what differs
// from method to method takes several interceptors in a chain. Options panic if they are given
// what can't be meant, such as a negative duration: they are called when a program starts.
type Option func(*settings)

type settings struct {
	rules   []*rule
	wait    time.Duration                // 0: refuse; the default if newest is given
	newest  []lockmw.Option              // Replace or Latest, or neither
	waiters int                          // of one key
	silence time.Duration                // of a stream's client
	caller  func(context.Context) string // nil: callers have no bound of their own
	callers *quota.Each
	limits  []lockmw.Option
	strict  bool
	maxHold maxhold.Setting
	accept  bool // fencing tokens
	strip   bool
}

// Wait waits in line for at most d, and for a store that is down meanwhile. A call's own deadline
// ends the wait as well, a margin before it (lockmw.AnswerBy), so that the caller hears that the
// lock is busy. It bounds [Replace] and [Latest], too. Default lockmw.DefaultWait (10 s). It panics
// if d is not positive.
func Wait(d time.Duration) Option {
	positive("Wait", d)
	return func(s *settings) { s.wait = d }
}

// Refuse does not wait: a call whose lock another caller has is refused at once.
func Refuse() Option {
	return func(s *settings) { s.wait, s.newest = 0, nil }
}

// Replace has the newest call with a key win: it ends the one whose handler runs, and takes the
// place of one that waits. Both are answered with codes.Aborted and REPLACED; the context of
// the one that ran ends with the cause renewer.ErrReplaced, and its stream fails. The handler
// runs when the older one has returned. [MaxWaiters] does not refuse the newest call; with
// [MaxWaitersPerCaller] allow two at least. The newest is that of the greatest rank, if the key is
// made by [lockmw.Ranked], or else the one whose key was known last: see [lockmw.Replace]. The
// interceptor's constructor panics if the keeper's store does not know which call is the newest, or
// with [AtMost] or [LocalShare].
func Replace() Option { return newestOf(lockmw.Replace()) }

// Latest has the newest call with a key wait as the only one, until the one whose handler runs is
// done: one that waited for it is answered with codes.Aborted and REPLACED. Otherwise it is like
// [Replace]: see [lockmw.Latest].
func Latest() Option { return newestOf(lockmw.Latest()) }

func newestOf(option lockmw.Option) Option {
	return func(s *settings) { s.newest = []lockmw.Option{option} }
}

// defaultMaxWaiters is how many calls of a server wait for one key unless [MaxWaiters] says
// otherwise: 100.
const defaultMaxWaiters = 100

// MaxWaiters bounds how many calls of this process wait in line for one key, behind the one that
// has its lock or asks for it; one more is refused at once. A very large n is no limit. It panics
// if n is not positive. Default 100.
func MaxWaiters(n int) Option {
	positive("MaxWaiters", n)
	return func(s *settings) { s.waiters = n }
}

// MaxWaitersPerCaller bounds to n how many calls of one caller wait for locks at the same time,
// whatever their keys, so that one caller does not fill all lines. A call counts from when it
// asks for its lock until it has it or is refused: choose n above what an honest caller sends at
// once. One more is refused at once, with codes.ResourceExhausted and CALLER_QUOTA. Of interceptors
// that are given the same option the calls are counted together. Default: no bound.
//
// caller says who makes a call: an account that an interceptor further out has checked, or the
// address of peer.FromContext. It is called concurrently. A call for which it is empty is
// codes.InvalidArgument. It panics if n is not positive, or if caller is nil.
func MaxWaitersPerCaller(n int, caller func(ctx context.Context) string) Option {
	positive("MaxWaitersPerCaller", n)
	if caller == nil {
		panic("lockbeat: grpcmw.MaxWaitersPerCaller needs a function that says who calls")
	}
	callers := quota.New(n)
	return func(s *settings) { s.caller, s.callers = caller, callers }
}

// MaxHold bounds how long a call or a stream keeps its lock, in place of renewer.Config.MaxHold:
// longer for a stream that goes on for hours, say, or shorter. Zero or less: no bound. If d is less
// than one renewer.Config.Heartbeat, the interceptor's constructor panics. See [lockmw.MaxHold].
// Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return func(s *settings) { s.maxHold = maxhold.Of(d) }
}

// Strict makes a lost lock an error even though the call succeeded.
func Strict() Option { return func(s *settings) { s.strict = true } }

// locking returns the options for the locks of a method.
func (s *settings) locking(method string) []lockmw.Option {
	opts := []lockmw.Option{
		lockmw.Wait(s.wait), lockmw.MaxWaiters(s.waiters), lockmw.Operation(method),
		lockmw.AnswerInTime(),
	}
	return maxhold.AddTo(slices.Concat(opts, s.newest, s.limits), s.maxHold, lockmw.MaxHold)
}

func positive[T int | time.Duration](option string, value T) {
	if value <= 0 {
		panic(fmt.Sprintf("lockbeat: grpcmw.%s(%v) can't be meant: give a positive one", option,
			value))
	}
}
