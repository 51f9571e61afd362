package jobs

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/newest"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option says what one [Wrap] does. Of two that contradict each other the later one counts.
// Options panic if they are given what can't be meant, such as a negative duration: they are called
// when a program starts.
type Option func(*settings)

type settings struct {
	wait    time.Duration // 0: refuse
	skip    bool
	newest  []lockmw.Option // Replace or Latest, or neither
	strict  bool
	maxHold maxhold.Setting
	shared  bool
	limit   func(name string) int // nil: a lock, unless the key is a limit's
	retryIn time.Duration         // 0: the defaults
	queue   Queue                 // nil: jobs don't stand in line
}

// newSettings panics if no lock of k can be had with them.
func newSettings(k *renewer.Keeper, opts []Option) settings {
	s := settings{wait: defaultWaits}
	for _, o := range opts {
		o(&s)
	}
	if err := cmp.Or(s.maxHold.Check(k), newest.Check(s.newest, k, s.limit != nil)); err != nil {
		panic(err.Error())
	}
	switch {
	case s.wait != defaultWaits:
	case s.newest != nil:
		s.wait = noDeadline // that of the attempt bounds it
	default:
		s.wait = defaultWait
	}
	return s
}

const (
	// defaultWait is that of [Wait].
	defaultWait = time.Second
	// defaultWaits means that Wait was not given.
	defaultWaits time.Duration = -1
)

// Wait waits for the lock for at most d before the job goes back to its queue, and never for more
// than an eighth of the job's time: the work always has seven eighths. It holds a worker's slot
// meanwhile. So a job does not wait at all where half of the workers wait already, or an eighth for
// its key (see [Slots]). By 0 no job waits but on its last attempt.
//
// It bounds the wait of the newest job, too ([Replace], [Latest]), which is counted with no others.
// Default 1 s, and for those two an eighth of the job's time. It panics if d is negative.
func Wait(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("lockbeat: Wait(%v) can't be meant: give how long to wait, 0 for not "+
			"at all", d))
	}
	return func(s *settings) { s.wait, s.skip = d, false }
}

// Skip leaves the work to the holder of the lock: the job is done, without having run.
func Skip() Option { return func(s *settings) { s.wait, s.skip, s.newest = 0, true, nil } }

// Strict makes a lost lock an error, [renewer.ErrLost], even though the function returned none: the
// framework runs the job again.
func Strict() Option { return func(s *settings) { s.strict = true } }

// MaxHold bounds how long a job keeps its lock, in place of renewer.Config.MaxHold: longer for jobs
// that run for an hour, say, or shorter. Zero or less: no bound. If d is less than one
// renewer.Config.Heartbeat, [Wrap] panics. See [lockmw.MaxHold]. Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return func(s *settings) { s.maxHold = maxhold.Of(d) }
}

// SharedKey leaves the job's kind out of the lock's name, so that kinds share locks with each
// other, and with lockmw.Do.
func SharedKey() Option { return func(s *settings) { s.shared = true } }

// AtMost makes a limit of the name instead of a lock: at most n jobs of a key run at once, on all
// servers. What is said of locks is true of limits: those refused go back uncounted, and by
// [InLine] one of a key waits in its worker's slot. 0 closes the limit: jobs come back after the
// delay of [RetryIn]. Several limits for a job, 3 a tenant and 20 in all, are a key made by
// [lockmw.Limits]; see [lockmw.AtMost]. It panics if n is negative.
func AtMost(n int) Option {
	if n < 0 {
		panic(fmt.Sprintf("lockbeat: AtMost(%d) can't be meant: give how many jobs of a key may "+
			"run at once, 0 for none", n))
	}
	return AtMostFunc(func(string) int { return n })
}

// AtMostFunc is [AtMost] with a number for each name, which may change: see [lockmw.AtMostFunc].
// The name has the job's kind before the key, unless [SharedKey] is given. It panics if limit is
// nil.
func AtMostFunc(limit func(name string) int) Option {
	if limit == nil {
		panic("lockbeat: AtMostFunc needs a function that returns how many may run at once")
	}
	return func(s *settings) { s.limit = limit }
}

// RetryIn sets for about how long a job stays away that was refused, or that could not ask its
// lock's store: a random duration between half of d and one and a half. Default lockmw.RetryIn: a
// second, five if the store was down, and longer for a lock that has been held for long. It panics
// if d is less than a millisecond.
func RetryIn(d time.Duration) Option {
	if d < time.Millisecond { // 5, say, for 5 * time.Second
		panic(fmt.Sprintf("lockbeat: RetryIn(%v) can't be meant: give a millisecond or more, such "+
			"as time.Second", d))
	}
	return func(s *settings) { s.retryIn = d }
}

// InLine has jobs stand in line for their lock, in the order in which they were first refused,
// without keeping a worker. A job that is refused goes back to its queue, uncounted, and is called
// from there when its turn is near. One job of a key, on all servers, waits in its worker's slot,
// as [Wait] says, or for up to eight times as long after others have waited in vain; then it goes
// back to the first place, and is called at the release.
//
// A job whose call is lost comes back by itself, after the keeper's TTL, and a tenth of a second
// more for each job before it, 10 minutes at most: [RetryIn] does not change that.
//
// Without effect if the keeper's store keeps no lines of jobs: package redisstore's does, on one
// deployment. It panics if q is nil.
func InLine(q Queue) Option {
	if q == nil {
		panic("lockbeat: InLine needs the queue of the jobs")
	}
	return func(s *settings) { s.queue = q }
}
