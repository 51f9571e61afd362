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

func common(o jobs.Option) Option { return func(s *settings) { s.common = append(s.common, o) } }

// Wait is [jobs.Wait]: for how long a task waits in its worker's slot, an eighth of its time at
// most. Default 1 s; for [Replace] and [Latest] that eighth. It panics if d is negative.
func Wait(d time.Duration) Option { return common(jobs.Wait(d)) }

// Skip is [jobs.Skip]: a task whose lock another caller has is done, without having run.
func Skip() Option { return common(jobs.Skip()) }

// Replace is [jobs.Replace]: the newest task of a key ends the one that runs, and takes the place
// of one that waits. Enqueue what [NewTask] makes: of other tasks, and without lockmw.Ranked, it is
// the one that a worker takes up last, which may be an older one. Those replaced are done, also on
// their last attempt. If the handler of one that ran returns an error of its own,
// Config.ErrorHandler is told of that, joined with asynq.RevokeTask, by which asynq drops the task.
func Replace() Option { return common(jobs.Replace()) }

// Latest is [jobs.Latest]: the newest task of a key waits, as the only one. Which that is, is as by
// [Replace].
func Latest() Option { return common(jobs.Latest()) }

// Strict is [jobs.Strict]: asynq runs a task again whose lock was lost, whatever it returned.
func Strict() Option { return common(jobs.Strict()) }

// MaxHold is [jobs.MaxHold]: how long a task keeps its lock, 0 for as long as it runs. [Handle] and
// [Middleware] panic if d is less than a renewer.Config.Heartbeat. Default: the keeper's bound.
func MaxHold(d time.Duration) Option { return common(jobs.MaxHold(d)) }

// SharedKey is [jobs.SharedKey]: the lock's name is the key, without the task's type.
func SharedKey() Option { return common(jobs.SharedKey()) }

// AtMost is [jobs.AtMost]: n tasks of a key run at once. It panics if n is negative.
func AtMost(n int) Option { return common(jobs.AtMost(n)) }

// AtMostFunc is [jobs.AtMostFunc]: limit returns how many of a name. It panics if limit is nil.
func AtMostFunc(limit func(name string) int) Option { return common(jobs.AtMostFunc(limit)) }

// RetryIn is [jobs.RetryIn]: about how long a refused task stays away. asynq rounds down to whole
// seconds, and looks every Config.DelayedTaskCheckInterval, a second by [Configure]. It panics if d
// is less than a millisecond.
func RetryIn(d time.Duration) Option { return common(jobs.RetryIn(d)) }

// Requeue brings a task back on its last attempt, too, when asynq archives it whatever a handler
// returns: client enqueues a copy before the original is dropped. Until then no such task waits in
// a worker: if that were killed, asynq would archive the task, unrun. Without Requeue one of a key
// does, for an eighth of its time, and others are archived. The client must be for the Redis of the
// server; its Close is the caller's, after the server's Shutdown.
//
// The copy has the type, payload, headers, queue, Timeout, Deadline and Retention of the original,
// and no attempt fewer. It does not have its ID, nor the Unique lock. The header "Lockbeat-Origin"
// has the original's ID. Only the inspector of [InLine] knows all three times. Without it the copy
// has the earlier one of Timeout and Deadline, and no Retention. It panics if client is nil.
func Requeue(client *asynq.Client) Option {
	if client == nil {
		panic("lockbeat: asynqmw.Requeue needs the client to enqueue by: asynq.NewClient")
	}
	return func(s *settings) { s.client = client }
}

// InLine is [jobs.InLine]: tasks stand in line for their lock in their queue, and are called when
// their turn is near. See docs/asynq.md. Those on their last attempt can't: see [Requeue].
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
	return func(s *settings) {
		s.queues = queues
		common(jobs.InLine(queues))(s)
	}
}
