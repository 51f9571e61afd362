// Package maxhold is the option MaxHold of the adapters.
package maxhold

import (
	"math"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Setting is what an adapter was given. Its zero value is nothing: the keeper's bound.
type Setting struct {
	bound time.Duration
	given bool
}

// Of is the setting of an adapter that was given d.
func Of(d time.Duration) Setting { return Setting{d, true} }

// Check refuses, with renewer.ErrConfig, a bound that no call of k can have. So a program learns of
// it when it starts.
func (s Setting) Check(k *renewer.Keeper) error {
	if !s.given {
		return nil
	}
	bound := s.bound
	if bound <= 0 {
		bound = math.MaxInt64
	}
	return k.Check(renewer.Request{MaxHold: bound})
}

// AddTo adds the option, as its package makes it, to those of a call.
func AddTo[Option any](opts []Option, s Setting, option func(time.Duration) Option) []Option {
	if !s.given {
		return opts
	}
	return append(opts, option(s.bound))
}
