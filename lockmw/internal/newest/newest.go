// Package newest is the options Replace and Latest of the adapters.
package newest

import (
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Setting is what an adapter was given. Its zero value is nothing: older calls keep their places.
type Setting struct{ option lockmw.Option }

// Of is the setting of an adapter that was given one of lockmw.Replace and lockmw.Latest.
func Of(option lockmw.Option) Setting { return Setting{option} }

// Given reports whether the adapter was given one.
func (s Setting) Given() bool { return s.option != nil }

// Check refuses, with renewer.ErrConfig, what no call of k can have. So a program learns of it when
// it starts. limited means that names are made limits.
func (s Setting) Check(k *renewer.Keeper, limited bool) error {
	if !s.Given() {
		return nil
	}
	if limited {
		return fmt.Errorf("%w: Replace, Latest: they are for locks, and not for limits (AtMost, "+
			"LocalShare): leave one of the two out", renewer.ErrConfig)
	}
	if _, ok := k.Store().(store.Replacer); !ok {
		return fmt.Errorf("%w: Replace, Latest: a %T does not know which call is the newest: use "+
			"one of redisstore or memory", renewer.ErrConfig, k.Store())
	}
	return nil
}

// AddTo adds the option to those of a call.
func (s Setting) AddTo(opts []lockmw.Option) []lockmw.Option {
	if !s.Given() {
		return opts
	}
	return append(opts, s.option)
}
