package asynqmw

import (
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// Option says what to do for [Handle], [Codec.Handle] and [Middleware]. Of two that contradict
// each other the later one counts. Options panic if they are given what can't be meant, such as a
// negative duration: they are called when a program starts.
type Option func(*settings)

type settings struct {
	common []jobs.Option
	client *asynq.Client
	queues *taskRedis // nil: tasks don't stand in line
	warned sync.Once  // that the server is not configured
}

func newSettings(opts []Option) *settings {
	s := new(settings)
	for _, o := range opts {
		o(s)
	}
	return s
}

func common(o jobs.Option) Option { return func(s *settings) { s.common = append(s.common, o) } }

// Wait waits for the lock for at most d before the task goes back to its queue, and never for more
// than an eighth of the task's time, in its worker's slot. By 0 no task waits but on its last
// attempt. Default 1 s; for [Replace] and [Latest] an eighth. It panics if d is negative. See
// [jobs.Wait].
func Wait(d time.Duration) Option { return common(jobs.Wait(d)) }

// Skip leaves the work to the holder of the lock: the task is done, without having run.
func Skip() Option { return common(jobs.Skip()) }

// Replace has the newest task of a key win: it ends the one that runs, and takes the place of one
// that waits, on any server. A task that is replaced is done, without an attempt used up, also on
// its last attempt. If the handler of one that runs returns an error that is neither
// context.Canceled nor renewer.ErrLost, Config.ErrorHandler is told of that, joined with
// asynq.RevokeTask, by which asynq drops the task. See [jobs.Replace].
func Replace() Option { return common(jobs.Replace()) }

// Latest has the newest task of a key wait as the only one, until the one that runs is done: one
// that waited for that is done, without having run. See [jobs.Latest].
func Latest() Option { return common(jobs.Latest()) }

// Strict makes a lost lock an error, renewer.ErrLost, even though the handler returned none: asynq
// runs the task again.
func Strict() Option { return common(jobs.Strict()) }

// MaxHold bounds how long a task keeps its lock, in place of renewer.Config.MaxHold. Zero or less:
// no bound. If d is less than one renewer.Config.Heartbeat, [Handle] and [Middleware] panic.
// Default: the keeper's bound. See [jobs.MaxHold].
func MaxHold(d time.Duration) Option { return common(jobs.MaxHold(d)) }

// SharedKey leaves the task type out of the lock's name, so that types share locks with each other,
// and with lockmw.Do.
func SharedKey() Option { return common(jobs.SharedKey()) }

// AtMost makes a limit of the name instead of a lock: at most n tasks of a key run at once, on all
// servers. 0 closes the limit. It panics if n is negative. See [jobs.AtMost].
func AtMost(n int) Option { return common(jobs.AtMost(n)) }

// AtMostFunc is [AtMost] with a number for each name, which may change. The name has the task's
// type before the key, unless [SharedKey] is given. It panics if limit is nil.
func AtMostFunc(limit func(name string) int) Option { return common(jobs.AtMostFunc(limit)) }

// RetryIn sets about how long after it was refused, or could not ask the lock's store, a task comes
// back: a random duration between half of d and one and a half. asynq rounds down to whole seconds,
// and looks every Config.DelayedTaskCheckInterval, a second by [Configure]. It panics if d is not
// positive. For the default see [jobs.RetryIn].
func RetryIn(d time.Duration) Option { return common(jobs.RetryIn(d)) }

// Requeue brings a task back on its last attempt, too. asynq archives a task that does not run
// on its last attempt, and asks no function of ours. So one such task of a key waits in its slot
// for an eighth of its time, and others are archived, unless there is a client to enqueue a
// copy by before the original is dropped. The client must be for the Redis of the server; its
// Close is the caller's, after the server's Shutdown.
//
// The copy has the type, payload, headers, queue, Timeout, Deadline and Retention of the original,
// and no attempt fewer. It does not have its ID, nor the Unique lock. The header "Lockbeat-Origin"
// has the original's ID. Only the inspector of [InLine] knows all three times. Without it the copy
// has the earlier one of Timeout and Deadline, and no Retention.
//
// It panics if client is nil.
func Requeue(client *asynq.Client) Option {
	if client == nil {
		panic("lockbeat: asynqmw.Requeue needs the client to enqueue by: asynq.NewClient")
	}
	return func(s *settings) { s.client = client }
}

// InLine has tasks stand in line for their lock, without keeping a worker, and wakes each when its
// turn is near: see [jobs.InLine] and docs/asynq.md. Tasks on their last attempt can't go back: see
// [Requeue].
//
// redis is what the server was made with. If it is another Redis, or another database of it, the
// keeper's observer is told with the first task, and tasks do not stand in line. With the first
// task it makes a client, which stays for the rest of the process: give one InLine to all handlers.
// It panics if redis is nil.
func InLine(redis asynq.RedisConnOpt) Option {
	if redis == nil {
		panic("lockbeat: asynqmw.InLine needs the server's Redis, such as an asynq.RedisClientOpt")
	}
	queues := newTaskRedis(redis)
	inLine := jobs.InLine(queues)
	return func(s *settings) {
		s.queues = queues
		s.common = append(s.common, inLine)
	}
}
