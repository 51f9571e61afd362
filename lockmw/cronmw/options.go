package cronmw

import (
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
)

// Option says what to do for one job. All nodes must give a job the same ones.
type Option func(*Job)

// Grace is how long after it is due a tick of the job may still be begun: by a node that is late,
// or when the store is back. Default [Config].Grace.
func Grace(d time.Duration) Option { return func(j *Job) { j.book.Grace = d } }

// Wait has a tick that comes while an earlier one is still being run wait for that,
// for at most d, and then run late, on one node. Of several such ticks the first
// that gets its turn runs; those before it are skipped. Default 0, or less: such a tick is skipped.
func Wait(d time.Duration) Option { return func(j *Job) { j.book.Wait = max(d, 0) } }

// MaxHold bounds how long a run of the job keeps the job's lock, in place of
// renewer.Config.MaxHold: longer for a job of an hour, say, or shorter. Zero or less: no bound.
// If d is less than one renewer.Config.Heartbeat, the job is refused with renewer.ErrConfig. See
// lockmw.MaxHold. Default: the keeper's bound.
func MaxHold(d time.Duration) Option { return func(j *Job) { j.book.MaxHold = maxhold.Of(d) } }

// RunIfMissed has the last tick that no node has taken run when the job begins on a node, once,
// however late: for the night in which all nodes were down. It is also run, within some 15 s of the
// store's return, when the store was away for longer than the tick's grace. Earlier ones are not
// run. A tick counts as missed if it was due while the job was known: since its first tick, or
// since a node had it with this option. The run is in a goroutine of its own, on the context given
// to [New], and a panic there ends the process.
func RunIfMissed() Option { return func(j *Job) { j.ifMissed = true } }

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
// [Tick].Left. Default 1, or less: the rest of such a tick is not run.
func TakeOver(n int) Option { return func(j *Job) { j.book.Attempts = n } }
