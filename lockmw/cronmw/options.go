package cronmw

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
)

// Option is for one job: lockmw.AnyOption, and those of this package.
type Option interface {
	ForTick(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*Job)

// ForTick implements [Option].
func (own) ForTick(s option.Settings) option.Settings { return s }

// Grace is how long after it is due a tick may still be begun, by a node that
// is late or when the store is back: at most the shortest time between two
// ticks. In milliseconds. Default half of that time, at most 15 min.
func Grace(d time.Duration) Option { return own(func(j *Job) { j.book.Grace = d }) }

// RunIfMissed has the last tick that no node has taken run, once, however late:
// when the job begins on a node, by a node that calls late, and within some 15
// s of the store's return; none before the job's first run. It may run in a
// goroutine of its own, on the context of [New], where a panic ends the
// process.
func RunIfMissed() Option { return own(func(j *Job) { j.ifMissed = true }) }

// TakeOver has a tick whose run was cut run again on another node, until it has
// been begun n times in all; [Current] has the number. Give it only to work
// that can be done twice. A run is cut
//
//   - if its context ended, by a loss or with that of [New] or [Job.Fire], and it then returned
//     an error; or if it panicked or called runtime.Goexit: another node runs it at once;
//   - if its node died: another node runs it when the dead one's lock has lapsed.
//
// Nodes stand by for that: [Job.Fire] returns when the tick has been run, on
// whatever node. The last run stays cut: see [renewer.Run].Left. Default 1: the
// rest of such a tick is not run.
func TakeOver(n int) Option { return own(func(j *Job) { j.book.Attempts = n }) }
