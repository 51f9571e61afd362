package cronmw

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/option"
)

// Option is for one job: lockmw.MaxHold, lockmw.Operation (by default the job's name), and this
// package's. All nodes must give a job the same. One that is invalid refuses the job, with
// renewer.ErrConfig.
type Option interface {
	ForTick(option.Settings) option.Settings
}

// own is an option of this package.
type own func(*Job)

// ForTick implements [Option].
func (own) ForTick(s option.Settings) option.Settings { return s }

// Grace is how long after it is due a tick of the job may still be begun: by a node that is late,
// or when the store is back. At most the shortest time between two ticks. Milliseconds; fractions
// are cut off. Default half of that time, at most 15 minutes.
func Grace(d time.Duration) Option { return own(func(j *Job) { j.book.Grace = d }) }

// RunIfMissed has the last tick that no node has taken run, once, however late: when the job begins
// on a node, for the night in which all nodes were down; by a node that calls late; and within some
// 15 s of the store's return, when the store was away for longer than the tick's grace. Earlier
// ones are not run, nor any before the job's first run. The run is in a goroutine of its own, on
// the context given to [New], and a panic there ends the process.
func RunIfMissed() Option { return own(func(j *Job) { j.ifMissed = true }) }

// TakeOver has a tick whose run was cut short run again on another node, until it has been begun n
// times in all. [Current] has the number. Give it only to work that can be done twice. A run is cut
//
//   - if its context ended, since the lock was lost or the context of [New] or [Job.Fire] has
//     ended, and it then returned an error; or if it panicked or called runtime.Goexit: another
//     node runs it at once;
//   - if its node died: another node runs it once the dead node's lock has lapsed.
//
// A run that returns nil is done, and one that returns an error while its context lives has failed.
// Neither is run again. Nodes stand by for what is cut: [Job.Fire] returns when the tick has been
// run, on whatever node; a node that starts looks for it, too. The last run stays cut: see
// [renewer.Run].Left. Default 1, or less: the rest of such a tick is not run.
func TakeOver(n int) Option { return own(func(j *Job) { j.book.Attempts = n }) }
