package jobs

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option is for [Wrap], and for the adapters of job frameworks: those of package lockmw that fit
// (lockmw.AnyOption, WaitOption, HandlerOption and SkipOption), [InLine] and [RetryIn]. An option
// that is invalid panics where a job's function is wrapped.
//
//   - lockmw.Wait waits in the worker, for a second by default, before the job goes back to its queue;
//     never for more than an eighth of the job's time, and not at all where too many wait: see [Slots].
//     By lockmw.Refuse no job waits but on its last attempt.
//   - A job that lockmw.Replace or lockmw.Latest replaces is [OutcomeDone]. The newest one never stands
//     in line: it waits in its worker, for an eighth of its time by default. It is the one of the
//     greatest rank, by its name (lockmw.Ranked) or by [Delivery].Rank. If the function of one that
//     runs returns an error other than context.Canceled or [renewer.ErrLost], that is the Result's.
//   - lockmw.LocalShare has no effect: while the store is away jobs go back to their queue.
type Option interface {
	ForJob(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*settings)

// ForJob implements [Option].
func (own) ForJob(s option.Settings) option.Settings { return s }

type settings struct {
	option.Settings

	retryIn time.Duration // 0: the defaults
	queue   Queue         // nil: jobs don't stand in line
}

// defaultWait is how long a job waits in its worker unless told otherwise.
const defaultWait = time.Second

// newSettings panics if no lock of k can be had with them.
func newSettings(k *renewer.Keeper, opts []Option) settings {
	var s settings
	for _, o := range opts {
		if mine, ok := o.(own); ok {
			mine(&s)
		} else {
			s.Settings = o.ForJob(s.Settings)
		}
	}
	s.MustSuit(k)
	s.Share = 0
	switch {
	case s.Wait != 0:
	case s.isNewest():
		s.Wait = noDeadline // that of the attempt bounds it
	default:
		s.Wait = defaultWait
	}
	if s.Contention != option.Waits {
		s.Wait = 0
	}
	s.Wait = min(s.Wait, noDeadline)
	return s
}

// isNewest reports whether of a key's jobs the newest alone waits.
func (s *settings) isNewest() bool { return s.Newest != renewer.AnyCall }

// RetryIn sets for about how long a job stays away that was refused, or that could not ask its
// lock's store: a random duration between half of d and one and a half. Default: a second, five if
// the store was away, and longer for a lock that has been held for long. It panics if d is less than
// a millisecond.
func RetryIn(d time.Duration) Option {
	if d < time.Millisecond { // 5, say, for 5 * time.Second
		panic(fmt.Sprintf("lockbeat: RetryIn(%v) can't be meant: give a millisecond or more, such "+
			"as time.Second", d))
	}
	return own(func(s *settings) { s.retryIn = d })
}

// InLine has jobs stand in line for their lock, in the order in which they were first refused,
// without keeping a worker. A job that is refused goes back to its queue, uncounted, and is called
// from there when its turn is near. One job of a name, on all servers, waits in its worker, as
// lockmw.Wait says, or for up to eight times as long after others have waited in vain.
//
// A job whose call is lost comes back by itself, after the keeper's TTL, and a tenth of a second
// more for each job before it, 10 minutes at most.
//
// Without effect if the keeper's store keeps no lines of jobs: package redisstore's does, on one
// deployment. It panics if q is nil.
func InLine(q Queue) Option {
	if q == nil {
		panic("lockbeat: InLine needs the queue of the jobs")
	}
	return own(func(s *settings) { s.queue = q })
}
