package asynqmw

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/line"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/lockmw/internal/newest"
	"github.com/lockbeat/lockbeat/renewer"
)

// Option says what to do for [Handle], [Codec.Handle] and [Middleware]. Of two that contradict
// each other the later one counts. Options panic if they are given what can't
// be meant, such as a negative duration: they are called when a program starts.
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
	client  *asynq.Client
	queues  *taskRedis // nil: tasks don't stand in line
	warned  sync.Once  // that the server is not configured
}

// newSettings panics if no lock of k can be had with MaxHold.
func newSettings(k *renewer.Keeper, opts []Option) *settings {
	s := &settings{wait: defaultWaits}
	for _, o := range opts {
		o(s)
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

// newLine returns that of a handler, nil if its tasks don't stand in line: the newest comes next.
func (s *settings) newLine(k *renewer.Keeper) *line.Line {
	if s.queues == nil || s.skip || s.newest != nil {
		return nil
	}
	return line.New(k, s.queues)
}

const (
	// defaultWait is that of [Wait].
	defaultWait = time.Second
	// defaultWaits means that Wait was not given.
	defaultWaits time.Duration = -1
)

// Wait waits for the lock for at most d before the task goes back to its queue, and never for
// more than an eighth of the task's time: the work always has seven eighths. It holds a worker's
// slot meanwhile. So a task does not wait at all where half of the workers wait already, or an
// eighth for its key. By 0 no task waits but on its last attempt.
//
// It bounds the wait of the newest task, too ([Replace], [Latest]), which is counted with no
// others. Default 1 s, and for those two an eighth of the task's time. It panics if d is
// negative.
func Wait(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("lockbeat: asynqmw.Wait(%v) can't be meant: give how long to wait in "+
			"line, 0 for not at all", d))
	}
	return func(s *settings) { s.wait, s.skip = d, false }
}

// Skip leaves the work to the holder of the lock: the task is done, without having run.
func Skip() Option { return func(s *settings) { s.wait, s.skip, s.newest = 0, true, nil } }

// Strict makes a lost lock an error, [renewer.ErrLost], even though
// the handler returned none: asynq runs the task again.
func Strict() Option { return func(s *settings) { s.strict = true } }

// MaxHold bounds how long a task keeps its lock, in place of renewer.Config.MaxHold: longer for
// tasks that run for an hour, say, or shorter. Zero or less: no bound. If d is less than one
// renewer.Config.Heartbeat, [Handle] and [Middleware] panic. See [lockmw.MaxHold].
// Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return func(s *settings) { s.maxHold = maxhold.Of(d) }
}

// SharedKey leaves the task type out of the lock's name, so that
// types share locks with each other, and with lockmw.Do.
func SharedKey() Option { return func(s *settings) { s.shared = true } }

// AtMost makes a limit of the name instead of a lock: at most n tasks of a key run at once, on all
// servers. What is said of locks is true of limits: those refused go back uncounted, and by
// [InLine] one of a key waits in its worker's slot. 0 closes the limit: tasks come back after the
// delay of [RetryIn]. Several limits for a task, 3 a tenant and 20 in all, are a key made by
// [lockmw.Limits]; see [lockmw.AtMost]. It panics if n is negative.
func AtMost(n int) Option {
	if n < 0 {
		panic(fmt.Sprintf("lockbeat: asynqmw.AtMost(%d) can't be meant: give how many tasks of a "+
			"key may run at once, 0 for none", n))
	}
	return AtMostFunc(func(string) int { return n })
}

// AtMostFunc is [AtMost] with a number for each name, which may change: see [lockmw.AtMostFunc].
// The name has the task's type before the key, unless [SharedKey] is given. It panics if limit is
// nil.
func AtMostFunc(limit func(name string) int) Option {
	if limit == nil {
		panic("lockbeat: asynqmw.AtMostFunc needs a function that returns how many may run at once")
	}
	return func(s *settings) { s.limit = limit }
}

// RetryIn sets about how long after it was refused, or could not ask the lock's
// store, a task comes back: a random duration between half of d and one and a half.
// asynq rounds down to whole seconds, and looks every Config.DelayedTaskCheckInterval,
// a second by [Configure]. Default lockmw.RetryIn: a second, five if the store was down, and
// longer for a lock that has been held for long. It panics if d is not positive.
func RetryIn(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: asynqmw.RetryIn(%v) can't be meant: give a positive "+
			"duration, such as a second", d))
	}
	return func(s *settings) { s.retryIn = d }
}

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

// InLine has tasks stand in line for their lock, in the order in which they were first refused,
// without keeping a worker: see docs/asynq.md. A task that is refused goes back to its queue, with
// no attempt used up, and is called from there when its turn is near. One task of a key, on all
// servers, waits in its worker's slot, as [Wait] says; then it goes back to the first place, and is
// called at the release.
//
// redis is what the server was made with. If it is another Redis, or another database of it, the
// keeper's observer is told with the first task, and tasks do not stand in line. With the first
// task it makes a client, which stays for the rest of the process: give one InLine to all handlers.
// A task whose call is lost comes back by itself, after the keeper's TTL, and a tenth of a second
// more for each task before it, 10 minutes at most: [RetryIn] does not change that. Tasks on their
// last attempt can't go back: see [Requeue].
//
// Without effect if the keeper's store keeps no lines of tasks: package redisstore's does, on one
// deployment. It panics if redis is nil.
func InLine(redis asynq.RedisConnOpt) Option {
	if redis == nil {
		panic("lockbeat: asynqmw.InLine needs the server's Redis, such as an asynq.RedisClientOpt")
	}
	queues := newTaskRedis(redis)
	return func(s *settings) { s.queues = queues }
}
