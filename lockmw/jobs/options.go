package jobs

import (
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option is for [Wrap], and for the adapters of job frameworks: [InLine],
// [RetryIn], and those of package lockmw that fit. Of jobs some say more:
//
//   - [lockmw.Wait]: for so long a job waits in its worker before it goes back to its queue.
//     Default a second; never more than an eighth of the job's time, and not at all where too
//     many wait ([Slots]). By [lockmw.Refuse] a job waits only if it is Last.
//   - [lockmw.Replace], [lockmw.Latest]: a job that is replaced is done. The newest one stands
//     in no line: it waits in its worker, by default for an eighth of its time.
//   - [lockmw.LocalShare]: without it jobs go back to their queue while the store is away.
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
		switch o := o.(type) {
		case nil:
		case own:
			o(&s)
		default:
			s.Settings = o.ForJob(s.Settings)
		}
	}
	s.MustSuit(k)
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
func (s *settings) isNewest() bool { return s.Newest != renewer.NewestOff }

// RetryIn is for about how long a job stays away that was refused, or could not
// ask the locks' store: a random duration between half of d and one and a half.
// Default: a second, five if the store is away, longer for a lock that has been
// held for long. It panics below a millisecond.
func RetryIn(d time.Duration) Option {
	if d < time.Millisecond { // 5, say, for 5 * time.Second
		panic(fmt.Sprintf("lockbeat: RetryIn(%v) can't be meant: give a millisecond or more, such "+
			"as time.Second", d))
	}
	return own(func(s *settings) { s.retryIn = d })
}

// InLine has jobs stand in line for their lock, in the order in which they were
// first refused, without keeping a worker: one that is refused goes back to its
// queue, uncounted, and is called from there when its turn is near. Of a name's
// jobs one, on all servers, waits in its worker.
//
// A job whose call is lost comes back by itself, after the keeper's TTL, and a
// tenth of a second more for each job before it, 10 minutes at most.
//
// Without effect if the keeper's store keeps no lines of jobs: package
// redisstore's does, on one deployment. It panics if q is nil.
func InLine(q Queue) Option {
	if q == nil {
		panic("lockbeat: InLine needs the queue of the jobs")
	}
	return own(func(s *settings) { s.queue = q })
}
