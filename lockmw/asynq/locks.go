package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Locks is what handlers need of their server: see [Configure]. It may be used
// concurrently.
type Locks struct {
	keeper *renewer.Keeper
	queue  *taskRedis // nil: by ForTest
	line   bool       // tasks stand in line
	copies bool       // a copy goes back in the place of one on its last attempt
	warned sync.Once  // of a server that is not configured
}

// ServerOption is for [Configure].
type ServerOption func(*Locks)

// NoLine has refused tasks come back by themselves, in a second or two and in
// no order. So a name's lock is idle between short tasks.
func NoLine() ServerOption { return func(l *Locks) { l.line = false } }

// NoCopies makes no copies of tasks on their last attempt. One of a name waits
// in its worker then, for an eighth of its time; asynq archives the others, and
// that one if it waits in vain.
func NoCopies() ServerOption { return func(l *Locks) { l.copies = false } }

// Configure returns what handlers take locks by, and cfg decorated for it, to
// give to asynq.NewServer as it is. redis is what that server is made with. A
// task that was refused its lock is no failure then, comes back soon, and
// raises no alarm; cfg's own IsFailure, RetryDelayFunc and ErrorHandler decide
// all else. On a server without this Config tasks fail, unrun, with
// [renewer.ErrConfig].
//
// Where they are not set, TaskCheckInterval is 10 ms and
// DelayedTaskCheckInterval 1 s, in place of 1 s and 5 s: an idle server asks
// Redis about 90 times a second for each queue.
//
// Call it for each server. A handler may run on several, by the locks of one.
// It panics if k or redis is nil.
func Configure(
	k *renewer.Keeper, redis asynq.RedisConnOpt, cfg asynq.Config, opts ...ServerOption,
) (*Locks, asynq.Config) {
	if k == nil || redis == nil {
		panic("lockbeat: asynqmw.Configure needs a keeper (renewer.New) and the server's Redis, " +
			"such as an asynq.RedisClientOpt")
	}
	l := &Locks{keeper: k, queue: &taskRedis{opt: redis}, line: true, copies: true}
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
	return l, decorated(cfg)
}

// ForTest returns locks for handlers that a test calls itself, without a
// server.
func ForTest(k *renewer.Keeper) *Locks { return &Locks{keeper: k} }

// Close closes the connections to asynq's Redis, after the server's Shutdown.
func (l *Locks) Close() error {
	if l.queue == nil {
		return nil
	}
	return l.queue.close()
}

// slotsKey is where a handler's context has the slots of its server: nothing if
// that is not configured, or if no server calls the handler.
type slotsKey struct{}

// decorated is cfg with what it needs for tasks that are refused.
func decorated(cfg asynq.Config) asynq.Config {
	own := cfg
	if cfg.TaskCheckInterval <= 0 {
		cfg.TaskCheckInterval = 10 * time.Millisecond
	}
	if cfg.DelayedTaskCheckInterval == 0 { // asynq takes a negative one as it is
		cfg.DelayedTaskCheckInterval = time.Second
	}
	cfg.IsFailure = func(err error) bool {
		return err != nil && notRun(err) == nil && (own.IsFailure == nil || own.IsFailure(err))
	}
	if own.RetryDelayFunc == nil {
		own.RetryDelayFunc = asynq.DefaultRetryDelayFunc
	}
	cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if e := notRun(err); e != nil {
			return e.RetryIn
		}
		return own.RetryDelayFunc(n, err, task)
	}
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(
		func(ctx context.Context, task *asynq.Task, err error) {
			e := notRun(err)
			if own.ErrorHandler != nil && (e == nil || e.Outcome == jobs.OutcomeFailed) {
				own.ErrorHandler.HandleError(ctx, task, err)
			}
		})
	if own.BaseContext == nil {
		own.BaseContext = context.Background
	}
	slots := jobs.NewSlots(cfg.Concurrency)
	cfg.BaseContext = func() context.Context {
		return context.WithValue(own.BaseContext(), slotsKey{}, slots)
	}
	return cfg
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}

// errNotConfigured is for a server on which each refusal would use up an
// attempt.
var errNotConfigured = fmt.Errorf("%w: the task's server was not made with the asynq.Config that "+
	"asynqmw.Configure returned, or its BaseContext was set afterwards: no task runs on it",
	renewer.ErrConfig)

// warn tells the keeper's observer of such a server, once: asynq logs no error
// of a task.
func (l *Locks) warn() {
	l.warned.Do(func() {
		l.keeper.Observer().Fault(renewer.Fault{Doing: "configure asynq", Err: errNotConfigured})
	})
}
