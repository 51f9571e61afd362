package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/misuse"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option is a rule ([ForMethod], [ForMetadata], [ForWholeMethod]), or says what
// to do for all methods that have one: lockmw.AnyOption, WaitOption and
// HandlerOption, and those of this package. What differs from method to method
// takes several interceptors in a chain.
//
//   - lockmw.Wait is 10 s by default. A call's own deadline ends the wait a margin
//     before it, so that the caller hears that the lock is busy.
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
		switch o := o.(type) {
		case nil:
		case own:
			o(&s)
		default:
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

// MaxWaitersPerCaller bounds how many calls of one caller ask or wait for locks
// at once, in this process, whatever their names: one more is
// codes.ResourceExhausted at once. Interceptors that are given the same option
// count together. caller says who makes a call, such as the account that an
// interceptor further out has checked; "" is codes.InvalidArgument. It is
// called concurrently. Default: no bound.
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

func newReports(k *renewer.Keeper) misuse.Reports {
	return misuse.Reports{Keeper: k, Doing: "serve gRPC"}
}

// report reports err, with which a call of a method was refused, if a mistake
// in the program lets it name no lock. A status that a key function has chosen
// is none.
func report(r *misuse.Reports, method string, err error) {
	switch {
	case said(err) != nil:
	case errors.Is(err, renewer.ErrConfig):
		r.Config(fmt.Errorf("lockbeat: calls of %s fail: %w", method, err))
	case errors.Is(err, renewer.ErrName):
		r.Unnamed(func() error {
			return fmt.Errorf("lockbeat: calls of %s are answered with InvalidArgument: %w; does "+
				"the request, or its metadata, have what is asked for?", method, err)
		})
	}
}
