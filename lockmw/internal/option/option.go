// Package option has the settings of a call, and where each option of package
// lockmw fits: a type for each set of places, with a method for each place. An
// option that does not fit does not compile.
package option

import (
	"fmt"
	"math"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Settings are what options say of a call.
type Settings struct {
	Contention Contention
	Wait       time.Duration // 0: the place's default; NoBound: as long as the context lives
	Within     time.Duration // how long a call that does not wait asks; 0: as long as it takes
	InTime     bool          // Wait and Within end before the context's deadline
	Newest     renewer.Newest
	Waiters    int64 // 0: the place's default
	Share      int   // 0: an outage refuses
	Strict     bool
	Expected   bool          // a refusal is nothing unusual
	MaxHold    time.Duration // 0: the keeper's
	Manual     time.Duration // 0: with a heartbeat
	Least      time.Duration
	Operation  string
	Err        error // the first option that is invalid
}

// Contention says what to do when another caller has the lock.
type Contention uint8

// To wait is the default.
const (
	Waits Contention = iota
	Refuses
	Skips
)

// NoBound is lockmw.NoBound.
const NoBound = math.MaxInt64

// Of applies options to the settings of a place, by its method. Nil is ignored.
func Of[Option any](s Settings, opts []Option, apply func(Option, Settings) Settings) Settings {
	for _, o := range opts {
		if any(o) != nil {
			s = apply(o, s)
		}
	}
	return s
}

// Invalid are settings with an option that is invalid.
func (s Settings) Invalid(format string, args ...any) Settings {
	if s.Err == nil {
		s.Err = fmt.Errorf("%w: "+format, append([]any{renewer.ErrConfig}, args...)...)
	}
	return s
}

// NoWait are settings of a call that does not wait.
func (s Settings) NoWait(how Contention) Settings {
	s.Contention, s.Newest = how, renewer.NewestOff
	return s
}

// Check is why no call of k can have the settings; nil if some can.
func (s Settings) Check(k *renewer.Keeper) error {
	if s.Err != nil {
		return s.Err
	}
	return k.Check(renewer.Request{
		MaxHold: s.MaxHold, Manual: s.Manual, Newest: s.Newest,
	})
}

// MustSuit panics if no call of k can have the settings: so a program learns of
// it when it starts.
func (s Settings) MustSuit(k *renewer.Keeper) {
	if err := s.Check(k); err != nil {
		panic(err.Error())
	}
}

// Under is once.Under: locks that work takes beside its own.
type Under struct {
	Set  names.Set
	With func(own Settings) Settings // nil: taken as its own is
}

// ForOnce changes nothing.
func (Under) ForOnce(s Settings) Settings { return s }

type set = func(Settings) Settings

// Any fits every place that takes a lock.
type Any struct{ Set set }

// Wait fits where a caller waits: functions, jobs, requests, calls, work that
// is done once.
type Wait struct{ Set set }

// Handler fits around functions, jobs, requests and calls.
type Handler struct{ Set set }

// Skip fits where "done by another" can be said: functions, jobs, requests.
type Skip struct{ Set set }

// Keep fits functions and leaders.
type Keep struct{ Set set }

// Func fits functions.
type Func struct{ Set set }

func (o Any) ForFunc(s Settings) Settings { return o.Set(s) }
func (o Any) ForLead(s Settings) Settings { return o.Set(s) }
func (o Any) ForJob(s Settings) Settings  { return o.Set(s) }
func (o Any) ForHTTP(s Settings) Settings { return o.Set(s) }
func (o Any) ForCall(s Settings) Settings { return o.Set(s) }
func (o Any) ForTick(s Settings) Settings { return o.Set(s) }
func (o Any) ForOnce(s Settings) Settings { return o.Set(s) }

func (o Wait) ForFunc(s Settings) Settings { return o.Set(s) }
func (o Wait) ForJob(s Settings) Settings  { return o.Set(s) }
func (o Wait) ForHTTP(s Settings) Settings { return o.Set(s) }
func (o Wait) ForCall(s Settings) Settings { return o.Set(s) }
func (o Wait) ForOnce(s Settings) Settings { return o.Set(s) }

func (o Handler) ForFunc(s Settings) Settings { return o.Set(s) }
func (o Handler) ForJob(s Settings) Settings  { return o.Set(s) }
func (o Handler) ForHTTP(s Settings) Settings { return o.Set(s) }
func (o Handler) ForCall(s Settings) Settings { return o.Set(s) }

func (o Skip) ForFunc(s Settings) Settings { return o.Set(s) }
func (o Skip) ForJob(s Settings) Settings  { return o.Set(s) }
func (o Skip) ForHTTP(s Settings) Settings { return o.Set(s) }

func (o Keep) ForFunc(s Settings) Settings { return o.Set(s) }
func (o Keep) ForLead(s Settings) Settings { return o.Set(s) }

func (o Func) ForFunc(s Settings) Settings { return o.Set(s) }
