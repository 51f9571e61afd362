package grpcmw

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// Option is a rule ([ForMethod], [ForMetadata], [ForWholeMethod]), or says what to do for all
// methods that have one. Of two that contradict each other the later one counts; what differs
// from method to method takes several interceptors in a chain. Options panic if they are given
// what can't be meant, such as a negative duration: they are called when a program starts.
type Option interface{ server(*settings) }

// CommonOption is what the interceptors that take locks take, and [Idempotent] too: [MaxHold].
type CommonOption interface {
	Option
	IdempotentOption
}

type option func(*settings)

func (o option) server(s *settings) { o(s) }

type settings struct {
	rules      []*rule
	unlinked   map[protoreflect.FullName]bool // services without generated code
	wait       time.Duration                  // 0: refuse
	waiters    int                            // 0: no limit
	silence    time.Duration                  // of a server's streams
	caller     func(context.Context) string   // nil: callers have no bound of their own
	callers    *quota.Each
	retryIn    time.Duration // 0: lockmw's default
	strict     bool
	maxHold    maxhold.Setting
	background bool // nobody waits for the release
	fence      bool // AcceptFence
	strip      bool
	operation  string // "": the method
}

func newSettings(opts ...Option) settings {
	s := settings{wait: lockmw.DefaultWait, waiters: DefaultMaxWaiters, silence: DefaultSilence}
	for _, o := range opts {
		o.server(&s)
	}
	return s
}

// Wait waits in line for at most d, and for a store that is down meanwhile. A call's own deadline
// ends the wait as well, a margin before it (lockmw.AnswerBy), so that the caller hears that the
// lock is busy. Default lockmw.DefaultWait (10 s). It panics if d is not positive.
func Wait(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: grpcmw.Wait(%v) can't be meant: give a positive duration, "+
			"or use Refuse", d))
	}
	return option(func(s *settings) { s.wait = d })
}

// ReleaseInBackground has the caller not wait for the release of the lock, which is one round trip
// to the store: see [lockmw.ReleaseInBackground]. A loss that the release alone finds is told to
// the keeper's Observer only. Default: the lock is released before the call's status is sent.
func ReleaseInBackground() Option { return option(func(s *settings) { s.background = true }) }

// MaxHold bounds how long a call or a stream keeps its lock, in place of renewer.Config.MaxHold:
// longer for a stream that goes on for hours, say, or shorter. Zero or less: no bound. If d is less
// than one renewer.Config.Heartbeat, the interceptor's constructor panics. See [lockmw.MaxHold].
// With [Idempotent] it bounds the lock of a key: after d another call with the key may run the
// handler, so give more than a handler takes. Default: the keeper's bound.
func MaxHold(d time.Duration) CommonOption { return maxHoldOption(d) }

type maxHoldOption time.Duration

func (o maxHoldOption) setting() maxhold.Setting { return maxhold.Of(time.Duration(o)) }

func (o maxHoldOption) server(s *settings)               { s.maxHold = o.setting() }
func (o maxHoldOption) idempotent(s *idempotentSettings) { s.MaxHold = o.setting() }

// Refuse does not wait: a call whose lock another caller has is refused at once.
func Refuse() Option { return option(func(s *settings) { s.wait = 0 }) }

// DefaultMaxWaiters is how many calls of a server wait for one key unless [MaxWaiters] says
// otherwise: 100.
const DefaultMaxWaiters = 100

// MaxWaiters bounds how many calls of this process wait in line for one key, behind the one that
// has its lock or asks for it; one more is refused at once. A very large n is no limit. It panics
// if n is not positive. Default [DefaultMaxWaiters].
func MaxWaiters(n int) Option {
	if n <= 0 {
		panic(fmt.Sprintf("lockbeat: grpcmw.MaxWaiters(%d) can't be meant: give a positive "+
			"number, or use Refuse", n))
	}
	return option(func(s *settings) { s.waiters = n })
}

// MaxWaitersPerCaller bounds to n how many calls of one caller wait for locks at the same time,
// whatever their keys, so that one caller does not fill all lines. A call counts from when it
// asks for its lock until it has it or is refused: choose n above what an honest caller sends at
// once. One more is refused at once, with codes.ResourceExhausted and LOCK_QUOTA. Of interceptors
// that are given the same option the calls are counted together. Default: no bound.
//
// caller says who makes a call: an account that an interceptor further out has checked, or the
// address of peer.FromContext. It is called concurrently. A call for which it is empty is
// codes.InvalidArgument. It panics if n is not positive, or if caller is nil.
func MaxWaitersPerCaller(n int, caller func(ctx context.Context) string) Option {
	if n <= 0 || caller == nil {
		panic(fmt.Sprintf("lockbeat: grpcmw.MaxWaitersPerCaller(%d, …) can't be meant: give a "+
			"positive number, and a function that says who calls", n))
	}
	callers := quota.New(n)
	return option(func(s *settings) { s.caller, s.callers = caller, callers })
}

// RetryIn sets about when a refused caller is told to come back: a random duration between
// half of d and one and a half. Default lockmw.RetryIn: a second, five if the store was
// down, and longer for a lock that has been held for long. It panics if d is not positive.
func RetryIn(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: grpcmw.RetryIn(%v) can't be meant: give a positive "+
			"duration, such as a second", d))
	}
	return option(func(s *settings) { s.retryIn = d })
}

// Strict makes a lost lock an error even though the call succeeded.
func Strict() Option { return option(func(s *settings) { s.strict = true }) }

// Operation names the work in place of the full method: a static name.
// Callers that wait for the lock read it, and telemetry shows it.
func Operation(name string) Option { return option(func(s *settings) { s.operation = name }) }

// AcceptFence does [ExtractFence] for every call, those without a rule included: what a client has
// sent by [InjectFence] is what lockmw.Fence finds, unless the call takes a lock of its own here,
// or has one. A malformed token is codes.InvalidArgument. Use it only behind the edge of a system,
// where all callers are trusted: a resource that has seen too high a token refuses everybody else.
// At the edge use [StripFence]; an interceptor with both panics.
func AcceptFence() Option { return option(func(s *settings) { s.fence = true }) }

// StripFence removes the token from the metadata of every call, those without a rule included,
// for the edge of a system: a gateway that copies the metadata of its calls would hand on a token
// that an outsider has made up. Give it to both interceptors.
func StripFence() Option { return option(func(s *settings) { s.strip = true }) }
