package grpcmw

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// Option is for the interceptors: a rule ([ForMethod], [ForMetadata], [ForWholeMethod]), or
// what to do for all methods that have one: those of package lockmw that fit (lockmw.AnyOption,
// WaitOption and HandlerOption) and this package's. Of two that contradict each other the later
// one counts; what differs from method to method takes several interceptors in a chain. One
// that is invalid panics where the interceptor is made.
//
//   - lockmw.Wait is 10 s by default. A call's own deadline ends the wait as well, a margin
//     before it, so that the caller hears that the lock is busy.
//   - By lockmw.Replace and lockmw.Latest older calls are codes.Aborted with REPLACED.
//   - lockmw.MaxWaiters is 100 by default. lockmw.Operation is the method's name.
type Option interface {
	ForCall(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*settings)

// ForCall implements [Option].
func (own) ForCall(s option.Settings) option.Settings { return s }

type settings struct {
	option.Settings

	rules   []*rule
	silence time.Duration                // of a stream's client
	caller  func(context.Context) string // nil: callers have no bound of their own
	callers *quota.Each
	accept  bool // fencing tokens
	strip   bool
}

// defaultMaxWaiters is how many calls of a server wait for one name.
const defaultMaxWaiters = 100

func newSettings(opts []Option) settings {
	s := settings{silence: defaultSilence}
	for _, o := range opts {
		if mine, ok := o.(own); ok {
			mine(&s)
		} else {
			s.Settings = o.ForCall(s.Settings)
		}
	}
	s.Wait = cmp.Or(s.Wait, lockmw.DefaultWait)
	s.Waiters = cmp.Or(s.Waiters, defaultMaxWaiters)
	s.InTime = true
	return s
}

// refuse notes that an option is invalid.
func (s *settings) refuse(format string, args ...any) {
	s.Settings = s.Invalid("grpcmw."+format, args...)
}

// MaxWaitersPerCaller bounds to n how many calls of one caller wait for locks at the same time,
// whatever their names. A call counts from when it asks for its lock until it has it or is
// refused: choose n above what an honest caller sends at once. One more is refused at once,
// with codes.ResourceExhausted and CALLER_QUOTA. Of interceptors that are given the same option
// the calls are counted together. Default: no bound.
//
// caller says who makes a call: an account that an interceptor further out has checked, or the
// address of peer.FromContext. It is called concurrently. A call for which it is empty is
// codes.InvalidArgument. It panics if n is not positive, or if caller is nil.
func MaxWaitersPerCaller(n int64, caller func(ctx context.Context) string) Option {
	callers := quota.New(int(min(n, math.MaxInt)))
	return own(func(s *settings) {
		if n < 1 || caller == nil {
			s.refuse("MaxWaitersPerCaller(%d): give 1 or more, and a function that says who calls",
				n)
		}
		s.caller, s.callers = caller, callers
	})
}
