package asynqmw

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// slotsKey is where a handler's context has the slots of its server: nothing if that is not
// configured, or if no server calls the handler, as in a test.
type slotsKey struct{}

// Locks is what handlers need of their server: [Configure] makes it, so that no handler runs on a
// server that is not configured. It may be used concurrently.
type Locks struct {
	keeper       *renewer.Keeper
	redis        *taskRedis
	line, copies bool
	warned       sync.Once // that the server is not configured
}

// ServerOption is for [Configure].
type ServerOption func(*Locks)

// NoLine has tasks that wait for locks come back by themselves after a second or two, in no order.
// Default: they stand in line, and are called when their turn is near: see [jobs.InLine].
func NoLine() ServerOption { return func(l *Locks) { l.line = false } }

// NoCopies has asynq archive a task that is refused on its last attempt, as it does whatever a handler
// returns; one of a name waits in its worker, for an eighth of its time. Default: a copy is enqueued
// before the original is dropped, and no such task waits in a worker.
//
// The copy has the type, payload, headers, queue, Timeout, Deadline and Retention of the original,
// and no attempt fewer. It does not have its ID, nor the Unique lock. The header "Lockbeat-Origin" has
// the original's ID. Without a line a copy has the earlier one of Timeout and Deadline, and no
// Retention.
func NoCopies() ServerOption { return func(l *Locks) { l.copies = false } }

// Configure returns what handlers take locks by, and cfg decorated for it: give it to asynq.NewServer
// as it is. redis is what that server is made with ([RedisOpt]); if it is another Redis, the keeper's
// observer is told with the first task, and tasks do not stand in line.
//
// A task that did not run for want of its lock uses up no attempt, comes back soon, and raises no
// alarm: IsFailure, RetryDelayFunc, ErrorHandler and BaseContext are decorated, and cfg's own decide
// everything else. TaskCheckInterval is 10 ms and DelayedTaskCheckInterval a second where they are not
// set: asynq's own are too slow for tasks that wait for locks. An idle server then asks Redis about 90
// times a second for each of its queues: docs/asynq.md has the price.
//
// Call it once for each server, and last: what is set afterwards replaces what is decorated. It asks
// no server, and makes a client with the first task that needs one: see [Locks.Close]. It panics if k
// or redis is nil.
func Configure(
	k *renewer.Keeper, redis asynq.RedisConnOpt, cfg asynq.Config, opts ...ServerOption,
) (*Locks, asynq.Config) {
	if k == nil || redis == nil {
		panic("lockbeat: asynqmw.Configure needs a keeper (renewer.New) and the server's Redis, " +
			"such as an asynq.RedisClientOpt")
	}
	l := &Locks{keeper: k, redis: newTaskRedis(redis), line: true, copies: true}
	for _, o := range opts {
		o(l)
	}
	l.redis.inspects = l.line
	return l, configure(cfg)
}

// ForTest returns locks for handlers that a test calls itself, without a server.
func ForTest(k *renewer.Keeper) *Locks { return &Locks{keeper: k} }

// Close closes the client of the server's Redis, if there is one. Call it after the server's Shutdown.
func (l *Locks) Close() error {
	if l.redis == nil {
		return nil
	}
	return l.redis.close()
}

// configure decorates cfg.
func configure(cfg asynq.Config) asynq.Config {
	own := cfg
	if cfg.TaskCheckInterval <= 0 {
		cfg.TaskCheckInterval = 10 * time.Millisecond // asynq's own is a second
	}
	if cfg.DelayedTaskCheckInterval == 0 { // asynq takes a negative one as it is
		cfg.DelayedTaskCheckInterval = time.Second // asynq's own is 5 s
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
			archived := e != nil && e.Outcome == jobs.OutcomeFailed
			if own.ErrorHandler != nil && (e == nil || archived || e.Counted) {
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
